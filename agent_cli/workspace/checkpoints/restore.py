"""Bringing files back: what a path was, whether it is still so, and putting another state in its place.
Shared by both kinds of checkpoints; a path that somebody else has changed since is never overwritten."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from agent_cli.fs.files import replace_file, replace_link, sweep_drafts
from agent_cli.fs.nofollow import DirEntryFd, dir_entry
from agent_cli.protocol.events import Conflict, RestoreReport
from agent_cli.protocol.messages import FileChange

LINK = "120000"
NESTED = "160000"
LARGEST_BYTES = 100_000_000
"""A larger file is in no checkpoint."""
CHANGED = "modified after this turn"
UNKNOWN = "changed around a crash; it is not known by whom"
_NESTED = "not covered by undo: commits, branches and index of a nested repository"
_LINK_ON_THE_WAY = "its folder is now a link to somewhere else"
_FILES = ("100644", "100755")


class Entry(msgspec.Struct, frozen=True):
    """One path in a checkpoint. An empty `blob` means that it did not exist."""

    blob: str = ""
    """Hash of the content, or of a link's target, as git makes it."""
    kind: str = ""
    """git's mode: 100644, 100755, 120000 (link) or 160000 (nested repository)."""
    mode: int = 0


class Change(msgspec.Struct, frozen=True):
    """What several moves together do to one path, given what is there now."""

    start: Entry
    """As it is."""
    end: Entry
    """As it becomes."""
    base: Entry
    """Where somebody else's changes begin: as it was left before them."""
    wanted: Entry
    """As it would become had nobody else changed it."""
    reason: str = ""
    """Why it does not become as `wanted`; empty when it does."""


Steps = list[tuple[Entry, Entry, bool]]
"""States of one path before and after each move that concerns it, and whether the move may be made."""


def chains(
    moves: Iterable[tuple[Mapping[str, tuple[Entry, Entry]], Collection[str] | None]],
    shown: Callable[[str], str] = str,
) -> dict[str, Steps]:
    """Moves one after the other, path by path. A move is what differs, before and after; with a collection, only
    these paths (as shown) may move."""
    found: dict[str, Steps] = {}
    for differences, only in moves:
        for path, (old, new) in differences.items():
            found.setdefault(path, []).append((old, new, only is None or shown(path) in only))
    return found


def plan_changes(root: Path, steps: Mapping[str, Steps]) -> dict[str, Change]:
    """Return what becomes of each path: a step is made where the path is as before it, and passed over where it is
    as after it; any other state is somebody else's, and stays until a step fits again."""
    found: dict[str, Change] = {}
    for path, some in steps.items():
        if any(NESTED in (old.kind, new.kind) for old, new, _ in some):
            found[path] = Change(some[0][0], some[-1][1], some[0][0], some[-1][1])
            continue
        try:
            found[path] = _settled(present(root, path)[0], some)
        except OSError as error:
            if error.errno == errno.ELOOP and not some[0][0].blob:
                found[path] = _settled(Entry(), some)  # the link may be one of those that go
                continue
            reason = _LINK_ON_THE_WAY if error.errno == errno.ELOOP else CHANGED
            found[path] = Change(some[0][0], some[0][0], some[0][0], some[-1][1], reason)
    return found


def _settled(now: Entry, steps: Steps) -> Change:
    state, base, reason = now, steps[0][0], ""
    for old, new, allowed in steps:
        if state == new:
            continue
        if state == old and allowed:
            state = new
        elif not reason:
            base, reason = old, CHANGED if allowed else UNKNOWN
    wanted = steps[-1][1]
    return Change(now, state, base, wanted, "" if state == wanted else reason)


def blob_hash(data: bytes) -> str:
    """git's name for a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def printable(path: str) -> str:
    """Return a path for display; bytes that are not UTF-8 are replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def kind_of_change(old: Entry, new: Entry) -> Literal["created", "modified", "deleted"]:
    """Return what happened to a path."""
    return "created" if not old.blob else "deleted" if not new.blob else "modified"


def join_reports(reports: Iterable[RestoreReport]) -> RestoreReport:
    """Several reports as one; each note once."""
    given = list(reports)
    return RestoreReport(
        tuple(each for report in given for each in report.restored),
        tuple(each for report in given for each in report.conflicts),
        tuple(dict.fromkeys(each for report in given for each in report.notes)),
    )


def restore(
    root: Path,
    differences: Mapping[str, tuple[Entry, Entry]],
    content: Callable[[str], bytes],
    *,
    shown: Callable[[str], str] = printable,
    keep: Collection[str] = (),
    made: list[str] | None = None,
    dry_run: bool = False,
) -> RestoreReport:
    """Turn each path that is still in its first state into its second. `content` gives the bytes of a blob,
    `shown` a path for display. Deletions come first, so that a folder can take a file's place and the other way
    round. A folder that becomes empty goes, unless it is among `keep`; those that are made are added to `made`.
    With `dry_run` nothing is changed."""
    restored: list[FileChange] = []
    conflicts: list[Conflict] = []
    place = _Place(os.path.realpath(root), content, keep, [] if made is None else made, dry_run)
    for path, (old, new) in sorted(differences.items(), key=lambda item: bool(item[1][1].blob)):
        try:
            reason = place.put(path, old, new)
        except OSError as error:
            reason = error.strerror or str(error)
        if reason is None:
            restored.append(FileChange(shown(path), kind_of_change(old, new)))
        elif reason:
            conflicts.append(Conflict(shown(path), reason, decidable=reason != _NESTED))
    return RestoreReport(tuple(restored), tuple(conflicts))


class _Place:
    """One restore below a real root."""

    def __init__(
        self, root: str, content: Callable[[str], bytes], keep: Collection[str], made: list[str], dry_run: bool
    ) -> None:
        self._root = root
        self._content = content
        self._keep = {os.path.join(root, folder) for folder in keep}
        self._made = made
        self._dry_run = dry_run
        self._swept: set[str] = set()
        self._emptied: set[str] = set()
        """Where a folder would be that a dry run leaves."""

    def put(self, path: str, old: Entry, new: Entry) -> str | None:
        """None: restored; empty: it was so already; else why it was left alone."""
        if NESTED in (old.kind, new.kind):
            return _NESTED
        real = os.path.join(self._root, path)
        if not self._dry_run and (folder := os.path.dirname(real)) not in self._swept:
            self._swept.add(folder)
            sweep_drafts(folder)  # a restore that was killed is carried out again
        try:
            with dir_entry(real) as at:
                done = self._put(at, real, old, new)
        except (FileNotFoundError, NotADirectoryError):
            if old.blob or not new.blob:
                return CHANGED if new.blob else ""
            if self._dry_run:
                return None
            with dir_entry(real, self._made) as at:
                done = self._put(at, real, old, new)
        except OSError as error:
            if error.errno == errno.ELOOP:
                on_the_way = {os.path.join(self._root, str(folder)) for folder in Path(path).parents}
                return None if self._dry_run and on_the_way & self._emptied else _LINK_ON_THE_WAY
            raise
        if done is None and not new.blob:
            self._prune(os.path.dirname(real))
        return done

    def _put(self, at: DirEntryFd, real: str, old: Entry, new: Entry) -> str | None:
        if is_as(at, new):
            return ""
        if not is_as(at, old) and not (self._dry_run and not old.blob and real in self._emptied):
            return CHANGED
        if self._dry_run:
            self._emptied.update(() if new.blob else (real,))
        elif not new.blob:
            at.unlink()
        else:
            write_entry(at, new, self._content(new.blob))
        return None

    def _prune(self, folder: str) -> None:
        """Remove folders that have become empty, up to the root."""
        while folder.startswith(f"{self._root}{os.sep}") and folder not in self._keep:
            if self._dry_run:
                self._emptied.add(folder)
            else:
                try:
                    with dir_entry(folder) as at:
                        os.rmdir(at.name, dir_fd=at.folder)
                except OSError:
                    return
            folder = os.path.dirname(folder)


def write_entry(at: DirEntryFd, entry: Entry, data: bytes) -> None:
    """Put a file or link in the place of what is there, in one step.

    Raises:
        OSError: it cannot be written, or a folder is there.
    """
    if entry.kind == LINK:
        replace_link(at.name, os.fsdecode(data), dir_fd=at.folder)
    else:
        replace_file(at.name, data, mode=entry.mode, dir_fd=at.folder)


def is_as(at: DirEntryFd, entry: Entry) -> bool:
    """Return whether what is there is exactly in a recorded state."""
    try:
        status = at.status()
    except FileNotFoundError:
        return not entry.blob
    if stat.S_ISLNK(status.st_mode):
        return entry.kind == LINK and blob_hash(os.fsencode(os.readlink(at.name, dir_fd=at.folder))) == entry.blob
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_BYTES:
        return False
    if entry.kind not in _FILES or stat.S_IMODE(status.st_mode) != entry.mode:
        return False
    return blob_hash(at.read(LARGEST_BYTES)) == entry.blob


def present(root: Path, path: str) -> tuple[Entry, bytes]:
    """Return what file or link is at a path now, and its content (of a link, its target).

    Raises:
        OSError: it cannot be read, or is a pipe or the like, or is larger than `LARGEST_BYTES`.
    """
    try:
        with dir_entry(os.path.join(os.path.realpath(root), path)) as at:
            status = at.status()
            if stat.S_ISLNK(status.st_mode):
                data = os.fsencode(os.readlink(at.name, dir_fd=at.folder))
                return Entry(blob_hash(data), LINK), data
            if stat.S_ISDIR(status.st_mode):
                return Entry(), b""
            if status.st_size > LARGEST_BYTES:
                raise OSError(errno.EFBIG, f"larger than {LARGEST_BYTES:,} bytes")
            data, mode = at.read(LARGEST_BYTES), stat.S_IMODE(status.st_mode)
            return Entry(blob_hash(data), "100755" if mode & 0o100 else "100644", mode), data
    except (FileNotFoundError, NotADirectoryError):
        return Entry(), b""
