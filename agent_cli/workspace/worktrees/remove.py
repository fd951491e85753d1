"""Remove a worktree: only one created by this program, whose process is gone, and without unsaved work."""

import asyncio
import contextlib
import os
from pathlib import Path

import msgspec

from agent_cli.fs.files import SAFE_OPEN_FLAGS, first_line, read_regular, reason_of, wait_for_lock
from agent_cli.fs.which import RunProgram

from ..git.repository import GitFolder, head_of
from .delete import delete_tree
from .merge import changes_of, refs_of, snapshot_of
from .store import STORE_LOCK, index_of, lock_of
from .worktree import Worktree, WorktreeError, open_worktree, record_of, this_process, write_record

_LONGEST_WAIT_S = 10.0
_LARGEST_REFS = 50_000_000


async def remove(worktree: Worktree, run: RunProgram, *, discard: bool = False) -> None:
    """Remove a worktree, its entry in the repository and its index in the store; after the last worktree, also the
    store.

    Args:
        worktree: as from `create` or `open_worktree`; its record on disk takes precedence.
        run: `sandbox.ProcessRunner.run`.
        discard: remove it even if it has changes that are neither merged nor saved as a patch.

    Raises:
        WorktreeError: it is not ours, its process is alive, it has changes, or something in it cannot be removed;
            it is never removed by force then.
    """
    known = await _checked(worktree, run, discard=discard)
    try:
        await asyncio.to_thread(_removed, known)
    except OSError as error:
        raise WorktreeError(f"the worktree {known.name} cannot be removed: {reason_of(error)}") from error


async def why_it_stays(worktree: Worktree, run: RunProgram) -> str:
    """Return why `remove` would refuse; empty if it would not."""
    try:
        await _checked(worktree, run)
    except (WorktreeError, OSError) as error:
        return str(error)
    return ""


async def _checked(worktree: Worktree, run: RunProgram, *, discard: bool = False) -> Worktree:
    """Return the worktree as recorded.

    Raises:
        WorktreeError: it must be kept.
    """
    known = open_worktree(Path(worktree.path))
    _check_place(known)
    if known.owner != this_process() and known.owner.is_alive():
        raise WorktreeError(f"process {known.owner.pid} is working in the worktree {known.name}")
    if os.path.lexists(known.path) and not discard and not known.is_going:
        await _refuse_loss(known, run)
    return known


async def _refuse_loss(known: Worktree, run: RunProgram) -> None:
    if not known.has_private_git and not os.path.isdir(known.place.common):
        raise WorktreeError(
            f"the repository {known.root} is not there, so nobody can tell whether a branch has the commits of the"
            f" worktree {known.name}; if it is gone for good, delete {known.path} yourself"
        )
    if not known.has_private_git and (commit := _unnamed_commit(known.place, known.commit)):
        advice = f"`git branch NAME {commit[:12]}` names them"
        raise WorktreeError(f"the worktree {known.name} holds commits that no branch has; {advice}")
    if known.saved_refs and refs_of(known) != known.saved_refs:
        raise WorktreeError(f"commits, branches or stashes were made in the worktree {known.name} since")
    now = await snapshot_of(known, run)
    if now.nested:
        names = ", ".join(now.nested[:5])
        raise WorktreeError(f"the worktree {known.name} holds repositories that no merge takes along: {names}")
    if now.tree != known.saved and await changes_of(known, now.tree, run):
        raise WorktreeError(f"the worktree {known.name} holds changes that are neither merged nor saved")


def _unnamed_commit(place: GitFolder, first: str) -> str:
    """Return the checked-out commit if it was made in the worktree and only its HEAD refers to it."""
    try:
        ref, head = head_of(place)
    except OSError:
        return ""
    if ref or head in ("", first):
        return ""
    refs = [Path(folder, name) for folder, _, names in os.walk(Path(place.common, "refs")) for name in names]
    for file in (*refs, Path(place.common, "packed-refs")):
        with contextlib.suppress(OSError):
            if head.encode() in read_regular(file, _LARGEST_REFS).split():
                return ""
    return head


def _check_place(known: Worktree) -> None:
    """Refuse a record that does not refer to a folder next to its store and to that folder's entry.

    Raises:
        WorktreeError: the record is refused.
    """
    path, entry = Path(known.path), Path(known.entry)
    if os.path.realpath(path.parent) != str(path.parent) or os.path.islink(path):
        raise WorktreeError(f"{path} is behind a link, so it is left alone")
    if path in (Path(known.root), *Path(known.root).parents):
        raise WorktreeError(f"{path} holds the main checkout, so it is left alone")
    if known.entry and entry.parent.name != "worktrees":
        raise WorktreeError(f"{entry} is not an entry of a worktree")
    if known.entry and os.path.lexists(entry):
        try:
            back = first_line(entry / "gitdir", 4096)
        except OSError as error:
            raise WorktreeError(f"{entry} cannot be read: {error.strerror}") from error
        if back != f"{path}/.git":
            raise WorktreeError(f"{entry} belongs to another worktree: {back}")


def _removed(known: Worktree) -> None:
    """Delete the files first, then git's data on them, and the record last, so that a removal can be repeated."""
    if os.path.lexists(known.path):
        write_record(msgspec.structs.replace(known, is_going=True))
        delete_tree(known.path)
    if known.has_private_git:
        with contextlib.suppress(FileNotFoundError):
            delete_tree(known.place.common)
    else:
        _forget(known)
    index_of(known.store, known.name).unlink(missing_ok=True)
    record_of(Path(known.path)).unlink(missing_ok=True)
    _delete_store(known.store)


def _forget(known: Worktree) -> None:
    """Remove the entry in the repository."""
    if os.path.lexists(known.entry):
        # Hidden from git atomically, so that no other git reads a partial entry.
        common = os.path.dirname(os.path.dirname(known.entry))
        gone = os.path.join(common, f"agent-worktree-gone-{os.urandom(6).hex()}")
        os.rename(known.entry, gone)
        delete_tree(gone)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(known.entry))  # as git does after the last one


def _delete_store(store: Path) -> None:
    """Delete the store after the last worktree, unless another is being created."""
    with contextlib.suppress(FileNotFoundError, TimeoutError):  # another process has deleted or needs it
        descriptor = os.open(lock_of(store, STORE_LOCK), os.O_RDWR | os.O_NOFOLLOW | SAFE_OPEN_FLAGS)
        try:
            wait_for_lock(descriptor, _LONGEST_WAIT_S)
            if os.listdir(store.parent) == [store.name] and not any(
                each.suffix in (".json", ".draft") for each in store.iterdir()
            ):
                delete_tree(str(store))
                with contextlib.suppress(OSError):  # another worktree has been started
                    os.rmdir(store.parent)
        finally:
            os.close(descriptor)
