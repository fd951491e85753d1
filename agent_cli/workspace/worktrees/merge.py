"""The changes in a worktree: as a patch, and merged into the main checkout as file changes, three-way for files
that have changed there too. The user's index, stash, branches and configuration are not touched."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import msgspec

from agent_cli.fs.files import read_regular, reason_of, replace_file
from agent_cli.fs.which import RunProgram

from ..checkpoints.restore import LINK, Entry, blob_hash, present, printable, restore
from ..git.repository import GitFolder, git_folder
from .store import Snapshot, SnapshotStore
from .worktree import Worktree, WorktreeError, write_record

_LARGEST_REFS = 50_000_000
OnConflict = Literal["stop", "skip", "markers"]
"""What to do if both sides have changed a file and the changes cannot be merged: merge nothing at all, skip these
files, or write text files with conflict markers."""


class MergeResult(msgspec.Struct, frozen=True):
    """Result of a merge, by path relative to the top of the checkout."""

    applied: tuple[str, ...] = ()
    conflicting: tuple[tuple[str, str], ...] = ()
    """Files that are not merged, or contain conflict markers, each with the reason."""
    identical: tuple[str, ...] = ()
    """Files that were already identical."""
    left_out: tuple[str, ...] = ()
    """Repositories inside the worktree, which are not part of any patch."""


class _Plan(msgspec.Struct):
    """The changes to make in the main checkout."""

    changes: dict[str, tuple[Entry, Entry]] = {}
    contents: dict[str, bytes] = {}
    identical: list[str] = []
    conflicts: dict[str, str] = {}
    marked: set[str] = set()


async def changed_files(worktree: Worktree, run: RunProgram) -> tuple[str, ...]:
    """Return the files that differ from the base.

    Raises:
        WorktreeError: the worktree cannot be read.
    """
    return tuple(map(printable, await changes_of(worktree, (await snapshot_of(worktree, run)).tree, run)))


async def patch(worktree: Worktree, run: RunProgram) -> bytes:
    """Return all changes against the base as a patch for `git apply`, including new files and binary content, but
    not ignored files.

    Raises:
        WorktreeError: the worktree cannot be read.
    """
    store, tree = _store(worktree, run), (await snapshot_of(worktree, run)).tree
    changes = await _changes(store, worktree, tree)
    return await store.patch(worktree.base, tree, changes) if changes else b""


class SavedPatch(msgspec.Struct, frozen=True):
    """A patch saved on disk."""

    sha256: str
    added: int
    """Number of lines added, not counting binary files."""
    removed: int
    files: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """Repositories inside the worktree, which are not part of any patch."""


async def save_patch(worktree: Worktree, file: Path, run: RunProgram) -> SavedPatch:
    """Write the patch to a file, read it back, and record that its contents are safe.

    Raises:
        WorktreeError: the worktree cannot be read, or the file not written.
    """
    store, now = _store(worktree, run), await snapshot_of(worktree, run, may_lack=True)
    changes = await _changes(store, worktree, now.tree)
    content = await store.patch(worktree.base, now.tree, changes) if changes else b""
    counts = await store.line_counts(worktree.base, now.tree) if changes else {}
    try:
        replace_file(file, content, durable=True)
        if read_regular(file) != content:
            raise WorktreeError(f"{file} does not hold what was written to it")
        _write_saved(worktree, now.tree)
    except OSError as error:
        raise WorktreeError(f"{file} cannot be written: {error.strerror}") from error
    return SavedPatch(
        sha256=hashlib.sha256(content).hexdigest(),
        added=sum(counts[path][0] for path in changes),
        removed=sum(counts[path][1] for path in changes),
        files=tuple(map(printable, changes)),
        left_out=now.nested,
    )


async def mark_saved(worktree: Worktree, run: RunProgram) -> None:
    """Record that the current contents of a worktree may be removed.

    Raises:
        WorktreeError: the worktree cannot be read.
        OSError: the record cannot be written.
    """
    _write_saved(worktree, (await snapshot_of(worktree, run)).tree)


def _write_saved(worktree: Worktree, tree: str) -> None:
    write_record(msgspec.structs.replace(worktree, saved=tree, saved_refs=refs_of(worktree)))


def refs_of(worktree: Worktree) -> str:
    """Return a hash of HEAD and all refs in a worktree's private git data, which changes with a commit, branch or
    stash."""
    if not worktree.has_private_git:
        return ""
    place, found = worktree.place, hashlib.sha256()
    refs = [Path(folder, name) for folder, _, names in os.walk(Path(place.common, "refs")) for name in names]
    for file in (Path(place.own, "HEAD"), Path(place.common, "packed-refs"), *sorted(refs)):
        with contextlib.suppress(OSError):
            found.update(os.fsencode(file) + b"\0" + read_regular(file, _LARGEST_REFS) + b"\0")
    return found.hexdigest()


async def merge(
    worktree: Worktree,
    into: Path,
    run: RunProgram,
    *,
    on_conflict: OnConflict = "stop",
    before: Callable[[], Awaitable[None]] | None = None,
) -> MergeResult:
    """Merge the changes into a checkout of the same repository; `before` is awaited before anything is written.

    Raises:
        WorktreeError: it is another repository, or something cannot be read.
    """
    place = _same_repository(worktree, into)
    store, now = _store(worktree, run), await snapshot_of(worktree, run)
    changes = await _changes(store, worktree, now.tree)
    plan = _Plan(contents=await store.contents(each.blob for pair in changes.values() for each in pair))
    for path, (base, theirs) in changes.items():
        await _plan(plan, _File(Path(place.top), path, base, theirs), store, on_conflict, worktree.name)
    applied: tuple[str, ...] = ()
    refused: dict[str, str] = {}
    if plan.changes and (not plan.conflicts or on_conflict != "stop"):
        if before is not None:
            await before()
        applied, refused = _apply(Path(place.top), plan, undo=on_conflict == "stop")
    if not plan.conflicts and not refused:
        write_record(msgspec.structs.replace(worktree, saved=now.tree))
    conflicting = tuple((printable(path), why) for path, why in sorted((plan.conflicts | refused).items()))
    return MergeResult(applied, conflicting, tuple(map(printable, plan.identical)), now.nested)


def _same_repository(worktree: Worktree, into: Path) -> GitFolder:
    try:
        place = git_folder(os.path.realpath(into))
    except OSError as error:
        raise WorktreeError(f"the repository around {into} cannot be read: {reason_of(error)}") from error
    if place is None or os.path.realpath(place.common) != os.path.realpath(Path(worktree.entry).parent.parent):
        raise WorktreeError(f"{into} is not a checkout of the repository of the worktree {worktree.name}")
    return place


async def snapshot_of(worktree: Worktree, run: RunProgram, *, may_lack: bool = False) -> Snapshot:
    """Return a snapshot of the worktree's current files; with `may_lack`, without those that git refuses.

    Raises:
        WorktreeError: they cannot be read.
    """
    if worktree.is_going:
        raise WorktreeError(f"the worktree {worktree.name} is being removed")
    if not os.path.isdir(worktree.path):
        raise WorktreeError(f"{worktree.path} is gone; `agent worktree clean` removes what is left of it")
    index = Path(worktree.place.own, "index")
    return await _store(worktree, run).snapshot(worktree.name, Path(worktree.path), index, may_lack=may_lack)


async def changes_of(worktree: Worktree, tree: str, run: RunProgram) -> dict[str, tuple[Entry, Entry]]:
    """Return path → states before and after, for everything that differs between the base and a snapshot.

    Raises:
        WorktreeError: the worktree cannot be read.
    """
    return await _changes(_store(worktree, run), worktree, tree)


def _store(worktree: Worktree, run: RunProgram) -> SnapshotStore:
    return SnapshotStore(worktree.store, worktree.place, run)


async def _changes(store: SnapshotStore, worktree: Worktree, tree: str) -> dict[str, tuple[Entry, Entry]]:
    carried = set(worktree.carried)
    found = await store.changes(worktree.base, tree)
    return {path: pair for path, pair in found.items() if path not in carried}


class _File(msgspec.Struct, frozen=True):
    """One path in three versions; the third is the file in the checkout."""

    top: Path
    path: str
    base: Entry
    theirs: Entry


async def _plan(plan: _Plan, file: _File, store: SnapshotStore, on_conflict: OnConflict, name: str) -> None:
    """Plan the merge of one path."""
    try:
        mine, content = present(file.top, file.path)
    except OSError as error:
        plan.conflicts[file.path] = error.strerror or str(error)
        return
    if _is_same(mine, file.theirs):
        plan.identical.append(file.path)
    elif _is_same(mine, file.base):
        plan.changes[file.path] = (mine, _as_file(mine, file.theirs))
    elif why := _cannot_join(mine, file):
        plan.conflicts[file.path] = why
    else:
        await _join(plan, file, (mine, content), store, on_conflict, name)


def _is_same(one: Entry, other: Entry) -> bool:
    return (one.blob, one.kind) == (other.blob, other.kind)


def _cannot_join(mine: Entry, file: _File) -> str:
    """Return why two changes cannot be merged line by line; empty if they may be."""
    if not mine.blob:
        return "it was removed here and changed in the worktree" if file.base.blob else ""
    if not file.theirs.blob:
        return "it was changed here and removed in the worktree"
    if LINK in (mine.kind, file.theirs.kind, file.base.kind):
        return "it is a link, or was one, and both have changed it"
    return ""


async def _join(
    plan: _Plan, file: _File, here: tuple[Entry, bytes], store: SnapshotStore, on_conflict: OnConflict, name: str
) -> None:
    """Merge a file line by line."""
    mine, content = here
    versions = (content, plan.contents.get(file.base.blob, b""), plan.contents[file.theirs.blob])
    labels = ("here", "before", f"worktree {name}")
    merged = await _merged(store, versions, labels, markers=False)
    if merged is None:
        why = "both have changed it in the same place"
        merged = await _merged(store, versions, labels, markers=True) if on_conflict == "markers" else None
        if merged is None:
            plan.conflicts[file.path] = (
                why if b"\0" not in b"".join(versions) else "it is binary, and both have changed it"
            )
            return
        plan.conflicts[file.path] = f"{why}: it has conflict markers"
        plan.marked.add(file.path)
    if merged == content and file.theirs.kind in (mine.kind, file.base.kind):
        plan.identical.append(file.path)
        return
    kind = file.theirs.kind if file.theirs.kind != file.base.kind else mine.kind
    blob = blob_hash(merged)
    plan.contents[blob] = merged
    plan.changes[file.path] = (mine, _as_file(mine, Entry(blob, kind)))


async def _merged(
    store: SnapshotStore, versions: tuple[bytes, bytes, bytes], labels: tuple[str, str, str], *, markers: bool
) -> bytes | None:
    if any(b"\0" in version for version in versions):
        return None
    with tempfile.TemporaryDirectory(prefix="agent-merge-") as folder:
        mine, base, theirs = (Path(folder, name) for name in ("mine", "base", "theirs"))
        for path, data in zip((mine, base, theirs), versions, strict=True):
            path.write_bytes(data)
        return await store.merged((mine, base, theirs), labels, markers=markers)


def _as_file(mine: Entry, wanted: Entry) -> Entry:
    """Return an entry with permissions: those of the existing file, adjusted to the wanted kind."""
    if not wanted.blob or wanted.kind == LINK:
        return wanted
    mode = mine.mode if mine.blob and mine.kind != LINK else 0o644
    mode = mode | (mode & 0o444) >> 2 if wanted.kind == "100755" else mode & ~0o111
    return Entry(wanted.blob, wanted.kind, mode)


def _apply(top: Path, plan: _Plan, *, undo: bool) -> tuple[tuple[str, ...], dict[str, str]]:
    """Write the changes. If one is refused and `undo` is set, those before it are reverted."""
    before = {path: present(top, path) for path in plan.changes}
    contents = plan.contents | {entry.blob: data for entry, data in before.values() if entry.blob}
    report = restore(top, plan.changes, contents.__getitem__, shown=str)
    refused = {each.path: each.reason for each in report.conflicts}
    done = [path for path in plan.changes if path not in refused]
    if refused and undo:
        back = {path: (plan.changes[path][1], plan.changes[path][0]) for path in done}
        left = restore(top, back, contents.__getitem__, shown=str)
        stuck = {each.path for each in left.conflicts}
        return tuple(map(printable, sorted(stuck))), refused
    return tuple(printable(path) for path in sorted(done) if path not in plan.marked), refused
