"""One session, one file: a JSON array with one record a line.

The file is valid JSON at rest. An append overwrites the closing bracket in place, in one write followed
by fsync, so that it costs the same however long the session is, and a crash can tear the last record
only. Damaged lines are skipped when the file is read and never rewritten. One process writes, held by a
lock on the file; others may read.
"""

import contextlib
import fcntl
import os
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from .. import __version__
from ..protocol.records import FORMAT_VERSION, AnyRecord, Header, decode, encode

NAME = re.compile(r"(\d{8}T\d{6}Z)-([0-9a-f]{8})\.json")
"""How a session file is called: when it began, and its id."""
_OPEN = b"[\n"
_CLOSE = b"\n]\n"
_SEPARATOR = b",\n"


class StoreError(Exception):
    """The session cannot be read or written; the text says what, where and what to do."""


class SessionLocked(StoreError):
    """Another process is writing this session."""


class Damage(msgspec.Struct, frozen=True):
    """A line that could not be read."""

    line: int
    reason: str


class Loaded(msgspec.Struct, frozen=True):
    """What a session file holds."""

    records: tuple[AnyRecord, ...]
    damage: tuple[Damage, ...] = ()
    """Unreadable lines in the middle; they stay in the file."""
    torn: bool = False
    """The last record was cut off by a crash and is lost."""
    end: int = 0
    """Byte offset behind the last complete line."""
    recovered: str = ""
    """How a damaged first line was understood all the same, in words; empty where it is whole."""

    def problems(self) -> tuple[str, ...]:
        """What is wrong with the file, in words for the user; empty when nothing is."""
        found = [f"line {each.line} of the session is damaged and left out: {each.reason}" for each in self.damage]
        if self.recovered:
            found.append(self.recovered)
        if self.torn:
            found.append("the last record of the session was torn by a crash and is lost")
        return tuple(found)


def read_session(path: Path) -> Loaded:
    """The records of a session file, whatever state it is in and whichever version wrote it.

    Raises:
        StoreError: not readable, no session at all, or written by a newer version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"cannot read session {path}: {error.strerror}") from error
    return parse_session(data, path)


def parse_session(data: bytes, path: Path) -> Loaded:
    """The records in the bytes of a session file; `path` is where they lie.

    Raises:
        StoreError: no session at all, or written by a newer version.
    """
    loaded = _parse(data)
    header = loaded.records[0] if loaded.records else None
    if not isinstance(header, Header):
        from .recover import header_from

        header, said = header_from(data, path, loaded.records)
        if header is None or not loaded.damage:
            raise StoreError(
                f"{path} is not a session of agent-cli: it does not begin with a session record. "
                "`agent sessions list --all` shows the sessions there are."
            )
        recovered = f"the first line is damaged; read or inferred: {', '.join(said)}"
        loaded = msgspec.structs.replace(loaded, records=(header, *loaded.records), recovered=recovered)
    elif header.version > FORMAT_VERSION:
        if header.created_by != f"agent-cli {__version__}":
            raise StoreError(
                f"{path} has format {header.version}, newer than this program knows. Update agent-cli."
            )
        claim = f"the first line claims format {header.version}, which the program that wrote it cannot write"
        loaded = msgspec.structs.replace(loaded, recovered=f"{claim}; taken for format {FORMAT_VERSION}")
    from .migrate import migrated  # a new session has nothing to read

    return msgspec.structs.replace(loaded, records=migrated(loaded.records))


def _parse(data: bytes) -> Loaded:
    closed = data.rstrip().rpartition(b"\n")[2].strip() == b"]"
    records: list[AnyRecord] = []
    damage: list[Damage] = []
    ends = [0]
    offset = 0
    for number, raw in enumerate(data.split(b"\n"), start=1):
        line = raw.strip().removesuffix(b",")
        if line not in (b"", b"[", b"]"):
            try:
                records.append(decode(line))
            except msgspec.DecodeError as error:
                damage.append(Damage(line=number, reason=str(error)))
                saved = _salvaged(line)
                records += saved
            ends.append(offset + len(raw.rstrip().removesuffix(b",")))
            last = number
        offset += len(raw) + 1
    torn = not closed and bool(damage) and damage[-1].line == last and not saved
    if torn:
        damage.pop()
        ends.pop()
    return Loaded(tuple(records), tuple(damage), torn, max(ends[-1], len(_OPEN) - 1))


def _salvaged(line: bytes) -> list[AnyRecord]:
    """The whole records in a line that is not one: what lies between two of them was damaged."""
    from .recover import pieces

    found: list[AnyRecord] = []
    for piece in pieces(line):
        with contextlib.suppress(msgspec.DecodeError):
            found.append(decode(piece))
    return found


class SessionFile:
    """A session file open for writing. Made by `create` or `open`; `append` is the only change."""

    def __init__(self, path: Path, descriptor: int, end: int) -> None:
        self.path = path
        self._fd = descriptor
        self._end = end

    @classmethod
    def create(cls, path: Path) -> "SessionFile":
        """A new, empty session file, readable by its owner only.

        Raises:
            StoreError: it exists, or the folder cannot be written.
        """
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StoreError(f"cannot create session {path}: {error.strerror}") from error
        _lock(descriptor, path)
        file = cls(path, descriptor, 0)
        try:
            file._write(_OPEN.rstrip(b"\n") + _CLOSE, 0)
        except StoreError:
            file.close()
            path.unlink()
            raise
        file._end = len(_OPEN) - 1
        _sync_folder(path.parent)
        return file

    @classmethod
    def open(cls, path: Path) -> "tuple[SessionFile, Loaded]":
        """An existing session, locked for writing, and what it holds.

        Raises:
            SessionLocked: another process writes it.
            StoreError: it cannot be read.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError as error:
            raise StoreError(f"cannot open session {path}: {error.strerror}") from error
        _lock(descriptor, path)
        try:
            loaded = read_session(path)
        except StoreError:
            os.close(descriptor)
            raise
        return cls(path, descriptor, loaded.end), loaded

    def append(self, records: Sequence[AnyRecord]) -> None:
        """Write records behind the last one and wait until the disk has them.

        Raises:
            StoreError: the disk is full or gone; the file is as it was before.
        """
        lines = _SEPARATOR.join(encode(record) for record in records)
        lead = b"\n" if self._end <= len(_OPEN) else _SEPARATOR
        data = lead + lines
        self._write(data + _CLOSE, self._end)
        self._end += len(data)

    def close(self) -> None:
        """Release the lock. Safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, data: bytes, at: int) -> None:
        try:
            view = memoryview(data)
            written = 0
            while written < len(data):
                written += os.pwrite(self._fd, view[written:], at + written)
            os.ftruncate(self._fd, at + len(data))
            os.fsync(self._fd)
        except OSError as error:
            self._restore(at)
            raise StoreError(
                f"cannot write session {self.path}: {error.strerror}. Nothing said so far is lost; "
                "free some space and try again."
            ) from error

    def _restore(self, at: int) -> None:
        """Put the closing bracket back where a failed write began; its bytes were there before."""
        try:
            os.pwrite(self._fd, _CLOSE, at)
            os.ftruncate(self._fd, at + len(_CLOSE))
        except OSError:
            pass  # the reader recovers from a missing bracket


def write_session(path: Path, records: Sequence[AnyRecord], *, instead: bool = False) -> None:
    """A whole session file that is there at once or not at all. `instead` takes the place of the one there.

    Raises:
        StoreError: it exists already, or the folder cannot be written; nothing is left behind.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    lines = _SEPARATOR.join(encode(record) for record in records)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_OPEN + lines + _CLOSE)
            file.flush()
            os.fsync(file.fileno())
        if instead:
            draft.replace(path)
        else:
            os.link(draft, path)
            draft.unlink()
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise StoreError(
            f"cannot write session {path}: {error.strerror}. Nothing was changed; free some space or mend the "
            "folder's permissions and try again."
        ) from error


class NewSessionFile:
    """A session file that comes to be with its first append, so that a session in which nothing was said
    leaves nothing behind."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: SessionFile | None = None

    def append(self, records: Sequence[AnyRecord]) -> None:
        """As `SessionFile.append`, creating the file first.

        Raises:
            StoreError: as `SessionFile.create` and `append`.
        """
        if self._file is None:
            self._file = SessionFile.create(self.path)
        self._file.append(records)

    def close(self) -> None:
        """Release the lock, if there is a file."""
        if self._file is not None:
            self._file.close()


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise SessionLocked(
            f"session {path.stem} is in use by another process. Close it there, read it with "
            f"`agent sessions show {path.stem.rpartition('-')[2]}`, or add --fork to work on a copy."
        ) from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
