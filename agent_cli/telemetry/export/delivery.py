"""Deliver trace files that were written before: to the collector that the standard variables name. A file of any
size is read in parts, each of which is one request."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from agent_cli.fs.files import PLAIN, draft, try_lock

from .collector import MOST_BYTES, CollectorLink, NotTakenError
from .otlp_settings import OtlpSettings
from .trace_file import RequestLine, RequestReader, TraceFileError, lock_in_place

_TOGETHER = 256
"""Lines of a file that are sent in one request."""
_TOO_LONG = 413
_PART_BYTES = 1 << 20


class Delivery(msgspec.Struct, frozen=True):
    """What became of one file."""

    path: Path
    sent: int
    """Spans of it that were taken."""
    left: int
    """Spans that were not."""
    damaged: int
    """Lines that are no requests, such as one that was cut off by a crash."""
    rejected: int = 0
    """Spans that were refused among others that were taken; the same would happen again."""
    failure: NotTakenError | None = None
    """Why not all were taken."""


class BusyError(TraceFileError):
    """Another program is sending the files of the same folder."""


class _Request(msgspec.Struct):
    resourceSpans: list[msgspec.Raw]


class _Scope(msgspec.Struct):
    spans: list[msgspec.Raw] = []


class _Group(msgspec.Struct):
    scopeSpans: list[_Scope] = []


async def deliver(path: Path, settings: OtlpSettings, kept_in: Path) -> Delivery:
    """Send a file. One of our own in the folder `kept_in` is removed once all of it was taken; of one that was
    taken in part the rest stays. Other files stay as they are.

    Raises:
        TraceFileError: it cannot be read, is no file of traces, or cannot be removed once it was sent.
        BusyError: another program is sending what lies in that folder.
    """
    link = CollectorLink(settings)
    sending = _Sending(link)
    is_ours = is_kept(path, kept_in)
    try:
        with _alone(kept_in) if is_ours else contextlib.nullcontext(), RequestReader(path) as reader:
            groups = grouped(reader.lines())
            failure, left = None, 0
            for group in groups:
                try:
                    await sending.send(group)
                except NotTakenError as error:
                    failure = error
                    left = _spans_in(each for each in group if each.end > sending.end) + sum(
                        map(_spans_in, groups)
                    )
            reader.check()
            if is_ours and (sending.end or failure is None):
                _leave_rest(reader, sending.end)
    finally:
        await link.aclose()
    return Delivery(path, sending.sent, left, reader.damaged, link.rejected, failure)


def is_kept(path: Path, folder: Path) -> bool:
    """Return whether a file lies in the folder for what could not be sent, however it is named."""
    return os.path.realpath(path.parent) == os.path.realpath(folder)


def kept_files(folder: Path) -> list[Path]:
    """Return the files with what could not be sent, oldest first."""
    found: list[tuple[float, str, Path]] = []
    for path in folder.glob("*.jsonl") if folder.is_dir() else ():
        with contextlib.suppress(FileNotFoundError):  # another program has just sent it
            found.append((path.stat().st_mtime, path.name, path))
    return [path for _, _, path in sorted(found)]


def grouped(lines: Iterable[RequestLine]) -> Iterator[list[RequestLine]]:
    """Yield the lines that go into one request together; no more are held."""
    group: list[RequestLine] = []
    size = 0
    for line in lines:
        if group and (len(group) >= _TOGETHER or size + len(line.data) > MOST_BYTES):
            yield group
            group, size = [], 0
        group.append(line)
        size += len(line.data)
    if group:
        yield group


class _Sending:
    """Sends lines, and knows how far it has come."""

    def __init__(self, link: CollectorLink) -> None:
        self._link = link
        self.sent = 0
        """Spans that were taken."""
        self.end = 0
        """Where in the file what was not taken begins, in bytes."""

    async def send(self, group: Sequence[RequestLine]) -> None:
        """Send lines as one request, or as several if one is too long for the collector.

        Raises:
            NotTakenError: not all of them were taken.
        """
        try:
            await self._link.send(_one(group))
        except NotTakenError as error:
            if error.status != _TOO_LONG or len(group) < 2:
                raise
        else:
            self.sent += _spans_in(group)
            self.end = group[-1].end
            return
        half = len(group) // 2
        await self.send(group[:half])
        await self.send(group[half:])


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let no other program send what lies in the folder, or the same spans would be sent twice.

    Raises:
        BusyError: one is at it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | PLAIN)
    try:
        is_free = True
        with contextlib.suppress(OSError):  # a file system without locks
            is_free = try_lock(descriptor)
        if not is_free:
            raise BusyError(f"another `agent trace send` is sending the files in {folder}; wait until it ends")
        yield
    finally:
        os.close(descriptor)


def _leave_rest(reader: RequestReader, start: int) -> None:
    """Let a file of ours begin at a byte, or remove it where no request is behind that.

    Raises:
        TraceFileError: it cannot be written or removed.
    """
    path = reader.path
    try:
        if not lock_in_place(reader.descriptor, path):
            return
        with RequestReader(path, start) as rest:
            is_empty = next(rest.lines(), None) is None
        if is_empty:
            path.unlink()
        elif start:
            _cut_beginning(reader.descriptor, path, start)
    except OSError as error:
        raise TraceFileError(f"{path}: sent, but it cannot be removed: {error.strerror}") from error


def _cut_beginning(descriptor: int, path: Path, start: int) -> None:
    with draft(path, b"") as (name, new):
        os.lseek(descriptor, start, os.SEEK_SET)
        while part := os.read(descriptor, _PART_BYTES):
            while part:
                part = part[os.write(new, part) :]
        os.replace(name, path)


def _one(lines: Sequence[RequestLine]) -> bytes:
    parts = [part for line in lines for part in msgspec.json.decode(line.data, type=_Request).resourceSpans]
    return msgspec.json.encode(_Request(parts))


def _spans_in(lines: Iterable[RequestLine]) -> int:
    return sum(map(_spans_in_line, lines))


def _spans_in_line(line: RequestLine) -> int:
    parts = msgspec.json.decode(line.data, type=_Request).resourceSpans
    try:
        groups = [msgspec.json.decode(part, type=_Group) for part in parts]
    except msgspec.ValidationError:  # of another program; the collector judges it
        return 0
    return sum(len(scope.spans) for group in groups for scope in group.scopeSpans)
