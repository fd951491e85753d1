"""Open the tree of an attempt: the files of a commit, or a copy of a plain folder, with everything its programs
need, such as the dependency folders of the main checkout."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from agent_cli.fs.nofollow import dir_entry
from agent_cli.fs.which import RunProgram
from agent_cli.workspace.git.repository import GitFolder
from agent_cli.workspace.worktrees.create import checkout_around
from agent_cli.workspace.worktrees.folder_copy import copy_folder
from agent_cli.workspace.worktrees.isolated import create_at_commit, create_copy, mounts_inside
from agent_cli.workspace.worktrees.remove import remove
from agent_cli.workspace.worktrees.store import SnapshotStore
from agent_cli.workspace.worktrees.worktree import Worktree

from ..task import Task, is_url
from .attempt_tree import AttemptTree
from .mirror import mirror
from .wrapper import Wrapper, usable

_MOST_NAMED = 5


async def open_tree(task: Task, *, name: str, place: Path, slot: int, run: RunProgram) -> AttemptTree:
    """Create a tree for an attempt at a task.

    Args:
        task: what to check out or copy, and its dependencies.
        name: unique among the attempts kept at `place`.
        place: folder for trees, outside of the repository.
        slot: number of the slot, by which ports and names differ.
        run: `sandbox.ProcessRunner.run`.

    Raises:
        WorktreeError, OSError: it cannot be created; nothing is left behind.
    """
    if not task.ref:
        worktree = await create_copy(Path(task.repo), name, place, run)
        return await _opened(worktree, None, task, slot, run)
    repository = await _repository(task, place, run)
    worktree = await create_at_commit(repository, task.ref, name, place, run, copied=task.copy)
    return await _opened(worktree, repository, task, slot, run)


async def _repository(task: Task, place: Path, run: RunProgram) -> GitFolder:
    if is_url(task.repo):
        return await mirror(task.repo, task.ref, place, run)
    real = os.path.realpath(task.repo)
    is_bare = all(os.path.exists(os.path.join(real, name)) for name in ("HEAD", "objects", "refs"))
    return GitFolder(real, real, real) if is_bare else checkout_around(Path(real))


async def _opened(
    worktree: Worktree, repository: GitFolder | None, task: Task, slot: int, run: RunProgram
) -> AttemptTree:
    """Return the tree; on failure the worktree is removed again."""
    try:
        wrapper, notes = await _wrapper(worktree, repository, task, run)
    except BaseException:
        await remove(worktree, run, discard=True)
        raise
    return AttemptTree(worktree, run, wrapper, variables(slot, worktree), notes)


async def _wrapper(
    worktree: Worktree, repository: GitFolder | None, task: Task, run: RunProgram
) -> tuple[Wrapper, tuple[str, ...]]:
    """Return the wrapper for programs in the tree, and notes about unavailable features."""
    is_local = repository is None or repository.top != repository.common
    fixed: tuple[tuple[str, str], ...] = ()
    found: tuple[str, ...] = ()
    if repository is not None and is_local:
        fixed = mounts_inside(worktree, os.path.join(repository.common, "objects"))
        found = await dependency_folders(worktree, repository, run) if task.deps != "none" else ()
        if task.deps in ("copy", "reflink"):
            await copy_dependencies(worktree, repository.top, found)
            found = ()
    bound = tuple(each for each in found if is_installed(each))
    over = [os.path.join(worktree.root, each) for each in bound]
    wanted = Wrapper(
        inside=worktree.root if is_local else "",
        tree=worktree.path,
        fixed=(*fixed, *((each, each) for each in over)),
    )
    for each in bound:
        make_mount_point(worktree, each)
    wrapper, reason = await usable(wanted, run)
    return wrapper, missing_parts(task, wanted, wrapper, reason, found)


def missing_parts(
    task: Task, wanted: Wrapper, wrapper: Wrapper, reason: str, folders: tuple[str, ...]
) -> tuple[str, ...]:
    """Return notes for the report about what a tree lacks.

    Args:
        task: the task with its requirements.
        wanted: the wrapper that programs should have.
        wrapper: the wrapper they have.
        reason: why these differ; empty if they do not.
        folders: dependency folders of the main checkout that were not copied.
    """
    notes = []
    bound = ", ".join([each for each in folders if is_installed(each)][:_MOST_NAMED])
    built = ", ".join([each for each in folders if not is_installed(each)][:_MOST_NAMED])
    if wanted.inside and not wrapper.inside:
        missing = f"dependency folders ({bound}) are missing and " if bound else ""
        notes.append(f"{missing}programs run at the tree's own path: {reason}")
    if built:
        notes.append(f"{built} is missing: builds write to it; `deps: copy` copies it")
    if not wrapper.program and task.network == "own":
        notes.append(f"setup and verify share the network of the machine: {reason}")
    return tuple(notes)


def variables(slot: int, worktree: Worktree) -> Mapping[str, str]:
    """Return the variables for every program that runs in a tree."""
    project = "".join(each if each.isalnum() else "-" for each in worktree.name.lower())
    settings = {"gc.auto": "0", "maintenance.auto": "0"}
    written = os.environ.get("GIT_CONFIG_COUNT", "")
    first = int(written) if written.isascii() and written.isdigit() else 0
    counted = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (key, value) in enumerate(settings.items(), start=first):
        counted |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {
        "AGENT_TASK_SLOT": str(slot),
        "AGENT_PORT_BASE": str(20_000 + 100 * slot),
        "COMPOSE_PROJECT_NAME": f"agent-{slot}-{project}"[:60],
        "GIT_CEILING_DIRECTORIES": os.path.dirname(worktree.path),
        **counted,
    }


_INSTALLED = frozenset({"node_modules", "bower_components", ".venv", "venv", "vendor", ".tox", ".nox"})
"""Folders that are only read once installed."""
_BUILT = frozenset({"target", "build", "dist", ".gradle", ".next"})
"""Folders that every build writes to; they can only be copied."""


async def dependency_folders(worktree: Worktree, place: GitFolder, run: RunProgram) -> tuple[str, ...]:
    """Return the dependency folders that git ignores in the main checkout, and that have a place in the tree.

    Raises:
        WorktreeError: the main checkout cannot be read.
    """
    store = SnapshotStore(worktree.store, place, run)
    found = await store.ignored_folders(Path(place.top), Path(place.own, "index"))
    named = [each for each in found if os.path.basename(each) in _INSTALLED | _BUILT]
    real = [each for each in named if os.path.realpath(os.path.join(place.top, each)) == f"{place.top}/{each}"]
    return tuple(each for each in real if _has_room(worktree.path, each))


def is_installed(folder: str) -> bool:
    """Return True if a dependency folder is only read once it is installed."""
    return os.path.basename(folder) in _INSTALLED


def make_mount_point(worktree: Worktree, folder: str) -> None:
    """Create the empty folder over which a dependency folder is mounted.

    Raises:
        OSError: it cannot be created.
    """
    with dir_entry(os.path.join(worktree.path, folder)) as at:
        os.mkdir(at.name, dir_fd=at.folder)


async def copy_dependencies(worktree: Worktree, top: str, folders: tuple[str, ...]) -> None:
    """Copy dependency folders into a tree.

    Raises:
        WorktreeError: a folder cannot be read or written.
        OSError: a folder cannot be created.
    """
    for each in folders:
        make_mount_point(worktree, each)
        await asyncio.to_thread(copy_folder, Path(top, each), Path(worktree.path, each))


def _has_room(tree: str, folder: str) -> bool:
    """Return True if the parent folder exists in the tree, and the folder itself does not."""
    whole = os.path.join(tree, folder)
    above = os.path.dirname(whole)
    return os.path.isdir(above) and os.path.realpath(above) == above and not os.path.lexists(whole)
