"""One session, one file: a JSON array with one record per line.

The file is valid JSON at rest. An append overwrites the closing bracket in place, in one write, followed by fsync
or by a `flush` that the caller awaits. So it costs the same however long the session is, and a crash can tear only
the last record. Damaged lines are skipped on reading and never rewritten. One process writes, holding a lock on
the file; others may read.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_cli import __version__
from agent_cli.fs import files
from agent_cli.protocol.records import FORMAT_VERSION, AnyRecord, Header, SyncTime, decode, encode

from .file_names import ID, NAME, id_in

if TYPE_CHECKING:
    import asyncio

_OPEN = b"[\n"
_CLOSE = b"\n]\n"
_SEPARATOR = b",\n"
_SLOW_S = 0.02
"""A person who types notices a longer wait for the disk."""
_NOT_SAVED = "What came last is not saved; everything before it is"


class StoreError(Exception):
    """The session cannot be read or written; the text says what, where and what to do."""


class SessionLocked(StoreError):
    """Another process is writing this session; `advice` says what to do instead."""

    def __init__(self, path: Path, advice: str = "") -> None:
        self.path = path
        advice = advice or f"close it there first, or read it with `agent sessions show {id_in(path)}`"
        super().__init__(f"session {path.stem} is in use by another process: {advice}")


class CorruptLine(msgspec.Struct, frozen=True):
    """A line that could not be read."""

    line: int
    reason: str


class Loaded(msgspec.Struct, frozen=True):
    """The content of a session file."""

    records: tuple[AnyRecord, ...]
    damage: tuple[CorruptLine, ...] = ()
    """Unreadable lines in the middle; they stay in the file."""
    torn: bool = False
    """True if the last record was cut off by a crash and is lost."""
    end: int = 0
    """Byte offset after the last complete line."""
    recovered: str = ""
    """Description of how a damaged first line was reconstructed; empty if it is intact."""
    rewritten: bool = False
    """True if another program has reformatted the lines: the file can be read but not appended to."""

    def problems(self) -> tuple[str, ...]:
        """Return what is wrong with the file, in words for the user; empty if nothing is."""
        found = [f"line {each.line} of the session is damaged and left out: {each.reason}" for each in self.damage]
        if self.recovered:
            found.append(self.recovered)
        if self.torn:
            found.append("the last record of the session was torn by a crash and is lost")
        return tuple(found)


def read_session(path: Path) -> Loaded:
    """Return the records of a session file, in whatever state, written by this or an older version.

    Raises:
        StoreError: not readable, not a session, or written by a newer version.
    """
    try:
        data = files.read_regular(path)
    except OSError as error:
        raise StoreError(f"cannot read session {path}: {error.strerror}") from error
    return parse_session(data, path)


def identity(path: Path, given: str) -> str:
    """Return the session id of a file: from the file name, else the id in the header; if that is invalid, one
    derived from both."""
    if named := NAME.fullmatch(path.name):
        return named.group(2)
    made = hashlib.sha256(os.fsencode(path.name) + given.encode("utf-8", "replace")).hexdigest()[:8]
    return given if ID.fullmatch(given) else made


def parse_session(data: bytes, path: Path) -> Loaded:
    """Parse the bytes of a session file; `path` is its location.

    Raises:
        StoreError: not a session, or written by a newer version.
    """
    loaded = _parse(data)
    is_ours = data.startswith(_OPEN) and isinstance(next(iter(loaded.records), None), Header)
    if (loaded.damage or loaded.torn) and not is_ours:
        from .salvage import by_lines

        again = _parse(by_lines(data))
        if len(again.records) > len(loaded.records) or (again.records and not again.damage):
            loaded = msgspec.structs.replace(again, rewritten=True)
    loaded = _with_header(loaded, data, path)
    from .migrate import migrate_records  # imported here: a new session has nothing to read

    return msgspec.structs.replace(loaded, records=migrate_records(loaded.records))


def _with_header(loaded: Loaded, data: bytes, path: Path) -> Loaded:
    """Return the content with a reliable header, and a description of what was changed for it.

    Raises:
        StoreError: as `parse_session`.
    """
    said = ["its lines were reformatted by another program"] if loaded.rewritten else []
    records = loaded.records
    header = records[0] if records else None
    if not isinstance(header, Header):
        from .salvage import header_from

        header, known = header_from(data, path, records)
        if header is None:
            raise StoreError(
                f"{path} is not a session of agent-cli: it does not begin with a session record. "
                "`agent sessions list --all` shows the sessions there are."
            )
        records = (header, *records)
        state = "damaged" if loaded.damage else "missing"
        said.append(f"the first line is {state}; read or inferred: {', '.join(known)}")
    elif header.version > FORMAT_VERSION:
        if header.created_by != f"agent-cli {__version__}":
            raise StoreError(
                f"{path} has format {header.version}, newer than this program knows. Update agent-cli."
            )
        claim = f"the first line claims format {header.version}, which the program that wrote it cannot write"
        said.append(f"{claim}; taken for format {FORMAT_VERSION}")
    identifier = identity(path, header.session_id)
    if identifier != header.session_id:
        said.append(f"the first line gives {header.session_id!r} as the session's id; {identifier} counts")
        records = (msgspec.structs.replace(header, session_id=identifier), *records[1:])
    return msgspec.structs.replace(loaded, records=records, recovered="; ".join(said))


def _parse(data: bytes) -> Loaded:
    closed = data.rstrip().rpartition(b"\n")[2].strip() == b"]"
    records: list[AnyRecord] = []
    damage: list[CorruptLine] = []
    ends = [0]
    offset = 0
    for number, raw in enumerate(data.split(b"\n"), start=1):
        line = raw.strip().removesuffix(b",")
        if line not in (b"", b"[", b"]"):
            try:
                records.append(decode(line))
            except msgspec.DecodeError as error:
                damage.append(CorruptLine(line=number, reason=str(error)))
                saved = _salvaged(line)
                records += saved
            ends.append(offset + len(raw.rstrip().removesuffix(b",")))
            last = number
        offset += len(raw) + 1
    torn = not closed and bool(damage) and damage[-1].line == last and not saved and len(ends) > 2
    if torn:
        damage.pop()
        ends.pop()
    return Loaded(tuple(records), tuple(damage), torn, max(ends[-1], len(_OPEN) - 1))


def _salvaged(line: bytes) -> list[AnyRecord]:
    """Return the intact records in a line whose separators were damaged."""
    from .salvage import pieces

    found: list[AnyRecord] = []
    for piece in pieces(line):
        with contextlib.suppress(msgspec.DecodeError):
            found.append(decode(piece))
    return found


class SessionFile:
    """A session file open for writing, obtained from `create` or `open`; `append` is the only change."""

    def __init__(self, path: Path, disk: files.Disk = files.DISK) -> None:
        self.path = path
        self._disk = disk
        self._fd = -1
        self._end = 0
        self._is_synced = True
        self._flushing: tuple[int, asyncio.Future[None]] | None = None
        """The newest `flush` that waits for the disk, with the end of the file that it covers."""
        self._waited_s = 0.0
        """Seconds that the disk took the last time."""

    def _hold(self, descriptor: int) -> None:
        self._fd = descriptor
        status = os.fstat(descriptor)
        self._inode = (status.st_dev, status.st_ino)

    @classmethod
    def create(cls, path: Path, disk: files.Disk = files.DISK) -> "SessionFile":
        """Create an empty session file, readable by its owner only.

        Raises:
            StoreError: it exists, or the folder is not writable.
        """
        file = cls(path, disk)
        file._create()
        return file

    def _create(self) -> None:
        try:
            files.make_private(self.path.parent)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StoreError(f"cannot create session {self.path}: {error.strerror}") from error
        try:
            _lock(descriptor, self.path)
        except StoreError:
            self.path.unlink()
            raise
        self._hold(descriptor)
        try:
            self._write(_OPEN.rstrip(b"\n") + _CLOSE, 0)
        except StoreError:
            self.close()
            self.path.unlink()
            raise
        self._end = len(_OPEN) - 1
        files.sync_folder(self.path.parent, self._disk)

    @classmethod
    def open(
        cls, path: Path, *, to_append: bool = True, disk: files.Disk = files.DISK
    ) -> "tuple[SessionFile, Loaded]":
        """Open an existing session, locked for writing, and return it with its content.

        Raises:
            SessionLocked: another process is writing it.
            StoreError: it cannot be read or, with `to_append`, not appended to.
        """
        try:
            descriptor = files.open_regular(path, os.O_RDWR)
        except OSError as error:
            raise StoreError(f"cannot open session {path}: {error.strerror}") from error
        _lock(descriptor, path)
        try:
            loaded = parse_session(files.read_descriptor(descriptor), path)
            if loaded.rewritten and to_append:
                repair = f"run `agent sessions repair {identity(path, '')}`, which makes it one again"
                raise StoreError(f"{path}: its lines were reformatted by another program; {repair}")
        except OSError as error:
            os.close(descriptor)
            raise StoreError(f"cannot read session {path}: {error.strerror}") from error
        except StoreError:
            os.close(descriptor)
            raise
        file = cls(path, disk)
        file._hold(descriptor)
        file._end = loaded.end
        return file, loaded

    def append(self, records: Sequence[AnyRecord], *, sync: SyncTime = "now") -> None:
        """Append records and wait until they are on disk, unless `sync` says that this happens later. At most one
        append at a time is left to the next, so that a power failure loses no more than the last one. A file that
        has been removed is written again.

        Raises:
            StoreError: the disk is full or gone, or another file has replaced this one; the file is unchanged.
        """
        self._check_place()
        lines = _SEPARATOR.join(encode(record) for record in records)
        lead = b"\n" if self._end <= len(_OPEN) else _SEPARATOR
        data = lead + lines
        durable = sync == "now" or (sync == "with_next" and not self._is_synced and self._flushing is None)
        self._write(data + _CLOSE, self._end, durable=durable)
        self._end += len(data)
        self._is_synced = durable

    def sync(self) -> None:
        """Wait until everything appended is on disk.

        Raises:
            StoreError: the disk is gone.
        """
        if self._is_synced or self._fd < 0:
            return
        try:
            with self._timed():
                self._disk.sync(self._fd)
        except OSError as error:
            raise self._unwritable(error) from error
        self._is_synced = True

    @property
    def is_slow(self) -> bool:
        """True if the disk was slow the last time, so that `flush` is better than to wait in `append`."""
        return self._waited_s > _SLOW_S

    async def flush(self) -> None:
        """Wait until everything appended so far is on disk, without blocking the event loop.

        Raises:
            StoreError: the disk is gone.
        """
        if self._is_synced or self._fd < 0:
            return
        import asyncio

        if self._flushing is None or self._flushing[0] != self._end:
            self._flushing = self._end, self._start_flush()
        try:
            await asyncio.shield(self._flushing[1])  # it goes on when the wait is cancelled
        except OSError as error:
            raise self._unwritable(error) from error

    def _start_flush(self) -> "asyncio.Future[None]":
        import asyncio

        end, begun = self._end, time.monotonic()

        def ended(done: "asyncio.Future[None]") -> None:
            self._waited_s = time.monotonic() - begun
            failed = done.cancelled() or done.exception() is not None
            self._is_synced = self._is_synced or (not failed and self._end == end)
            if self._flushing is not None and self._flushing[1] is done:
                self._flushing = None

        flushing = asyncio.get_running_loop().run_in_executor(None, _sync_and_close, self._disk, os.dup(self._fd))
        flushing.add_done_callback(ended)
        return flushing

    def close(self) -> None:
        """Sync and release the lock. Safe to call twice."""
        with contextlib.suppress(StoreError):
            self.sync()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _check_place(self) -> None:
        """Ensure that the open file is still the one at its path, so that written data can be found."""
        try:
            status = os.stat(self.path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            self._put_back()
            return
        except OSError:
            return  # its path cannot be examined, but it may still be writable
        if (status.st_dev, status.st_ino) != self._inode:
            raise self._replaced()
        if status.st_size < self._end:
            raise StoreError(
                f"session {self.path} was cut off by another program while it was in use here. Nothing more is "
                f"saved. `agent sessions repair {identity(self.path, '')}` keeps what is left of it."
            )

    def _put_back(self) -> None:
        """Write a removed file again from the descriptor, which still has the content."""
        try:
            data = files.read_descriptor(self._fd)
            files.make_private(self.path.parent)
            with files.draft(self.path, data, durable=True, disk=self._disk) as (name, descriptor):
                files.try_lock(descriptor)
                try:
                    os.link(name, self.path)
                except FileExistsError as error:
                    raise self._replaced() from error
                files.sync_folder(self.path.parent, self._disk)
                os.close(self._fd)
                self._hold(os.dup(descriptor))  # shares the lock
        except OSError as error:
            reason = f"{error.strerror}: cannot write session {self.path}, which was removed, again."
            raise StoreError(f"{reason} {_NOT_SAVED}. Fix that and try again.") from error

    def _replaced(self) -> StoreError:
        return StoreError(
            f"session {self.path} was replaced by another file while it was in use here (by a sync program or an "
            "editor). Nothing was overwritten, and nothing more is saved. Move that file away and try again: this "
            "session is then written there whole. Or leave, and `agent resume` goes on with that file."
        )

    def _write(self, data: bytes, at: int, *, durable: bool = True) -> None:
        try:
            with self._timed() if durable else contextlib.nullcontext():
                files.write_end(self._fd, data, at, durable=durable, disk=self._disk)
        except OSError as error:
            self._restore(at)
            raise self._unwritable(error) from error

    @contextlib.contextmanager
    def _timed(self) -> Generator[None, None, None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self._waited_s = time.monotonic() - begun

    def _unwritable(self, error: OSError) -> StoreError:
        return StoreError(
            f"{error.strerror}: cannot write session {self.path}. {_NOT_SAVED}. "
            "To go on, free some space and try again."
        )

    def _restore(self, at: int) -> None:
        """Restore the closing bracket where a failed write began; its bytes were there before."""
        try:
            os.pwrite(self._fd, _CLOSE, at)
            os.ftruncate(self._fd, at + len(_CLOSE))
        except OSError:
            pass  # reading recovers from a missing bracket


def write_session(
    path: Path, records: Sequence[AnyRecord], disk: files.Disk = files.DISK, *, instead: bool = False
) -> None:
    """Write a whole session file atomically. `instead` replaces an existing file.

    Raises:
        StoreError: it exists already, or the folder is not writable; nothing is left behind.
    """
    lines = _SEPARATOR.join(encode(record) for record in records)
    try:
        files.make_private(path.parent)
        with files.draft(path, _OPEN + lines + _CLOSE, durable=True, disk=disk) as (name, _):
            (os.replace if instead else os.link)(name, path)
        files.sync_folder(path.parent, disk)
    except OSError as error:
        raise StoreError(
            f"{error.strerror}: cannot write session {path}. Nothing was changed; free some space or fix the "
            "folder's permissions and try again."
        ) from error


class NewSessionFile(SessionFile):
    """A session file that is created by its first append, so that a session without any message leaves nothing
    behind."""

    def append(self, records: Sequence[AnyRecord], *, sync: SyncTime = "now") -> None:
        """Append as `SessionFile.append` does, creating the file first.

        Raises:
            StoreError: as `SessionFile.create` and `append`.
        """
        if not self._end:
            self._create()
        super().append(records, sync=sync)


def _sync_and_close(disk: files.Disk, descriptor: int) -> None:
    try:
        disk.sync(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        is_ours = files.try_lock(descriptor)
    except OSError as error:
        os.close(descriptor)
        raise StoreError(
            f"cannot lock session {path}: {error.strerror}. Its file system has no locks, so two processes could "
            "write one session"
        ) from error
    if not is_ours:
        os.close(descriptor)
        raise SessionLocked(path)
