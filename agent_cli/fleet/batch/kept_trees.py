"""The kept trees of a batch: their sizes, and the removal of the oldest."""

import contextlib
import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from agent_cli.fs.files import read_regular
from agent_cli.protocol.paths import is_inside
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.workspace.worktrees.clean import size_bytes, where_processes_stand
from agent_cli.workspace.worktrees.remove import remove
from agent_cli.workspace.worktrees.worktree import WorktreeError, open_worktree

from ..attempt import AttemptResult, attempt_folder
from ..attempts.run import PATCH_FILE, SANDBOX_FILE


class KeptTree(msgspec.Struct, frozen=True):
    """The tree of an attempt that still exists."""

    result: AttemptResult
    bytes: int
    removed: bool = False
    why: str = ""
    """Why it was not removed although it should be."""


def kept_trees(results: Iterable[AttemptResult]) -> list[KeptTree]:
    """Return the existing trees of these attempts, oldest first."""
    found = [
        KeptTree(each, size_bytes(Path(each.tree))) for each in results if each.tree and os.path.isdir(each.tree)
    ]
    return sorted(found, key=lambda kept: kept.result.finished)


async def bound(out: Path, kept: Sequence[KeptTree], most_bytes: float, runner: ProcessRunner) -> list[KeptTree]:
    """Remove the oldest trees until the rest is small enough; return each with the result. A tree stays if its
    patch is not safe in OUT, or if it was changed since."""
    left = sum(each.bytes for each in kept)
    said = []
    for each in kept:
        if left <= most_bytes:
            said.append(each)
            continue
        try:
            _check_patch(out, each.result)
            _check_nobody_is_in(each.result.tree)
            await remove(open_worktree(Path(each.result.tree)), runner.run)
        except (WorktreeError, OSError) as error:
            said.append(msgspec.structs.replace(each, why=str(error)))
            continue
        left -= each.bytes
        said.append(msgspec.structs.replace(each, removed=True))
    return said


def sweep(place: Path) -> None:
    """Remove the leftovers of a batch at its place, unless trees are kept there."""
    (place / SANDBOX_FILE).unlink(missing_ok=True)
    for folder in (place / "state", place):
        with contextlib.suppress(OSError):  # something is kept there
            folder.rmdir()


def _check_patch(out: Path, result: AttemptResult) -> None:
    """Refuse to remove a tree that could not be rebuilt."""
    path = attempt_folder(out, result.id, result.attempt) / PATCH_FILE
    if result.patch is None or hashlib.sha256(read_regular(path)).hexdigest() != result.patch.sha256:
        raise WorktreeError(f"{path} does not hold its changes")


def _check_nobody_is_in(tree: str) -> None:
    """Refuse to remove a tree that is the working directory of a process."""
    for pid, folder in where_processes_stand().items():
        if is_inside(folder, (tree,)):
            raise WorktreeError(f"process {pid} is working in it")
