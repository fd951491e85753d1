"""Restore files: compare the current state of a path with the recorded one and replace it. Shared by both kinds of
checkpoints. A path that somebody else has changed is never overwritten."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from agent_cli.fs.files import replace_link, sweep_drafts
from agent_cli.fs.nofollow import DirEntryFd, dir_entry
from agent_cli.protocol.events import Conflict, RestoreReport
from agent_cli.protocol.messages import FileChange
from agent_cli.workspace.files.atomic_write import restore_file

LINK = "120000"
NESTED = "160000"
LARGEST_BYTES = 100_000_000
"""Larger files are not saved in checkpoints."""
CHANGED = "modified after this turn"
_NESTED = "not covered by undo: commits, branches and index of a nested repository"
_LINK_ON_THE_WAY = "its folder is now a link to somewhere else"
_FILES = ("100644", "100755")


class Entry(msgspec.Struct, frozen=True):
    """State of one path in a checkpoint. An empty `blob` means that it did not exist."""

    blob: str = ""
    """git hash of the content, or of a symbolic link's target."""
    kind: str = ""
    """git mode: 100644, 100755, 120000 (symbolic link) or 160000 (nested repository)."""
    mode: int = 0


class Change(msgspec.Struct, frozen=True):
    """The combined effect of several moves on one path, given its current state."""

    start: Entry
    """Current state."""
    end: Entry
    """State after the change."""
    base: Entry
    """The state that somebody else's changes are based on."""
    wanted: Entry
    """The state it would get if nobody else had changed it."""
    reason: str = ""
    """Why it does not become `wanted`; empty if it does."""

    @property
    def is_open(self) -> bool:
        """True if the path is not in the state that it should get: changed by somebody else, or not writable when
        it was restored."""
        return bool(self.reason) or self.start != self.end

    @property
    def is_gone(self) -> bool:
        """True if the path was to be deleted and is already, as after a restore that was killed: the folder that
        it was in may be left, empty."""
        return not (self.reason or self.start.blob or self.end.blob)


Steps = list[tuple[Entry, Entry, str]]
"""States of one path before and after each relevant move, and why it does not move; empty if it does."""


def chains(
    moves: Iterable[tuple[Mapping[str, tuple[Entry, Entry]], Callable[[str], str]]],
    shown: Callable[[str], str] = str,
) -> dict[str, Steps]:
    """Arrange moves by path. A move is given as the differing paths with their states before and after, and a
    function that returns why a path, as displayed, does not move."""
    found: dict[str, Steps] = {}
    for differences, refusal in moves:
        for path, (old, new) in differences.items():
            found.setdefault(path, []).append((old, new, refusal(shown(path))))
    return found


def plan_changes(root: Path, steps: Mapping[str, Steps]) -> dict[str, Change]:
    """Return the change for each path. A step applies if the path is in its initial state, and is skipped if in
    its final state. Any other state was made by somebody else and is kept until a step matches again."""
    found: dict[str, Change] = {}
    for path, some in steps.items():
        if any(NESTED in (old.kind, new.kind) for old, new, _ in some):
            found[path] = Change(some[0][0], some[-1][1], some[0][0], some[-1][1])
            continue
        try:
            found[path] = _settled(present(root, path)[0], some)
        except OSError as error:
            if error.errno == errno.ELOOP and not some[0][0].blob:
                found[path] = _settled(Entry(), some)  # the link may be among those to be removed
                continue
            reason = _LINK_ON_THE_WAY if error.errno == errno.ELOOP else CHANGED
            found[path] = Change(some[0][0], some[0][0], some[0][0], some[-1][1], reason)
    return found


def _settled(now: Entry, steps: Steps) -> Change:
    state, base, reason = now, steps[0][0], ""
    for old, new, refusal in steps:
        if state == new:
            continue
        if state == old and not refusal:
            state = new
        elif not reason:
            base, reason = old, refusal or CHANGED
    wanted = steps[-1][1]
    return Change(now, state, base, wanted, "" if state == wanted else reason)


def blob_hash(data: bytes) -> str:
    """Return git's hash of a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def printable(path: str) -> str:
    """Return a path for display, with bytes that are not UTF-8 replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def kind_of_change(old: Entry, new: Entry) -> Literal["created", "modified", "deleted"]:
    """Return the kind of change to a path."""
    return "created" if not old.blob else "deleted" if not new.blob else "modified"


def join_reports(reports: Iterable[RestoreReport]) -> RestoreReport:
    """Combine reports, without duplicate notes."""
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
    created: list[str] | None = None,
    emptied: set[str] | None = None,
    dry_run: bool = False,
) -> RestoreReport:
    """Change each path that is still in its first state to its second. `content` returns the bytes of a blob,
    `shown` a path for display. Deletions come first, so that a folder can replace a file and the reverse. Folders
    that become empty are removed unless in `keep`; created ones are added to `made`, created files to `created`.
    With `dry_run` nothing is changed; the real paths that a real run would have emptied are in `emptied`."""
    restored: list[FileChange] = []
    conflicts: list[Conflict] = []
    place = _Place(
        os.path.realpath(root), content, keep, [] if made is None else made, [] if created is None else created,
        emptied=set() if emptied is None else emptied, dry_run=dry_run,
    )  # fmt: skip
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
    """A restore below a real root."""

    def __init__(
        self, root: str, content: Callable[[str], bytes], keep: Collection[str], made: list[str],
        created: list[str], *, emptied: set[str], dry_run: bool,
    ) -> None:  # fmt: skip
        self._root = root
        self._content = content
        self._keep = {os.path.join(root, folder) for folder in keep}
        self._made = made
        self._created = created
        self._dry_run = dry_run
        self._swept: set[str] = set()
        self._emptied = emptied

    def put(self, path: str, old: Entry, new: Entry) -> str | None:
        """Return None if restored, an empty text if nothing was to do, otherwise why the path was not changed."""
        if NESTED in (old.kind, new.kind):
            return _NESTED
        real = os.path.join(self._root, path)
        if not self._dry_run and (folder := os.path.dirname(real)) not in self._swept:
            self._swept.add(folder)
            sweep_drafts(folder)  # a killed restore may have left drafts
        try:
            with dir_entry(real) as at:
                done = self._put(at, real, old, new)
        except (FileNotFoundError, NotADirectoryError):
            if not new.blob:
                self._prune(os.path.dirname(real))
                return ""
            if old.blob:
                return CHANGED
            if self._dry_run:
                return None
            with dir_entry(real, self._made) as at:
                done = self._put(at, real, old, new)
        except OSError as error:
            if error.errno == errno.ELOOP:
                on_the_way = {os.path.join(self._root, str(folder)) for folder in Path(path).parents}
                return None if self._dry_run and on_the_way & self._emptied else _LINK_ON_THE_WAY
            raise
        if not done and not new.blob:  # also if a restore that was killed had deleted it
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
            if not old.blob:
                self._created.append(real)
        return None

    def _prune(self, folder: str) -> None:
        """Remove folders that have become empty, up to the root."""
        while folder.startswith(f"{self._root}{os.sep}") and folder not in self._keep:
            try:
                if self._dry_run:
                    rehearse_rmdir(folder, self._emptied)
                else:
                    with dir_entry(folder) as at:
                        os.rmdir(at.name, dir_fd=at.folder)
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError:
                return
            folder = os.path.dirname(folder)


def rehearse_rmdir(folder: str, emptied: set[str]) -> None:
    """Rehearse `rmdir`: add a folder to the paths that a real run would have emptied.

    Raises:
        OSError: it would not be empty, or it cannot be listed.
    """
    if any(os.path.join(folder, name) not in emptied for name in os.listdir(folder)):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
    emptied.add(folder)


def write_entry(at: DirEntryFd, entry: Entry, data: bytes) -> None:
    """Replace a path with a file or symbolic link atomically. A file keeps its owner and attributes.

    Raises:
        OSError: it cannot be written, or a folder is there.
    """
    if entry.kind == LINK:
        replace_link(at.name, os.fsdecode(data), dir_fd=at.folder)
    else:
        restore_file(at, data, entry.mode)


def is_as(at: DirEntryFd, entry: Entry) -> bool:
    """Return True if the current state is exactly the recorded one."""
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
    """Return the file or symbolic link at a path, with its content or target.

    Raises:
        OSError: it cannot be read, is a pipe or similar, or is larger than `LARGEST_BYTES`.
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
