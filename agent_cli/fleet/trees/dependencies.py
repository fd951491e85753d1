"""Dependency folders of the main checkout: find them and make them available in a tree."""

import asyncio
import os
from pathlib import Path

from agent_cli.fs.nofollow import dir_entry
from agent_cli.fs.which import RunProgram
from agent_cli.workspace.git.repository import GitFolder
from agent_cli.workspace.worktrees.folder_copy import copy_folder
from agent_cli.workspace.worktrees.store import SnapshotStore
from agent_cli.workspace.worktrees.worktree import Worktree

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
