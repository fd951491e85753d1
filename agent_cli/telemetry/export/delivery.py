"""Deliver existing trace files to the collector that the standard variables name. A file of any size is read in
parts, each sent as one request."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from agent_cli.fs.files import SAFE_OPEN_FLAGS, draft, try_lock
from agent_cli.protocol.json_text import decode_json

from .collector import MOST_BYTES, CollectorLink, NotTakenError
from .otlp_settings import OtlpSettings
from .trace_file import RequestLine, RequestReader, TraceFileError, lock_in_place

_TOGETHER = 256
"""Maximum number of lines sent in a request."""
_TOO_LONG = 413
_PART_BYTES = 1 << 20


class Delivery(msgspec.Struct, frozen=True):
    """The result for a file."""

    path: Path
    sent: int
    """Number of accepted spans."""
    left: int
    """Number of spans that were not accepted."""
    damaged: int
    """Number of lines that are not requests, such as one cut off by a crash."""
    rejected: int = 0
    """Number of spans rejected from requests that were accepted; a retry would not help."""
    failure: NotTakenError | None = None
    """Why not all spans were accepted."""


class BusyError(TraceFileError):
    """Another program is sending the files of the same folder."""


class _Request(msgspec.Struct):
    resourceSpans: list[msgspec.Raw]


class _Scope(msgspec.Struct):
    spans: list[msgspec.Raw] = []


class _Group(msgspec.Struct):
    scopeSpans: list[_Scope] = []


async def deliver(path: Path, settings: OtlpSettings, kept_in: Path) -> Delivery:
    """Send a file. A file of ours in the folder `kept_in` is removed once all of it was accepted; if only a part
    was accepted the rest stays. Other files stay unchanged.

    Raises:
        TraceFileError: it cannot be read, is not a trace file, or cannot be removed after sending.
        BusyError: another program is sending the files of that folder.
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
    """Return True if a file is in the folder for unsent spans, under any name."""
    return os.path.realpath(path.parent) == os.path.realpath(folder)


def kept_files(folder: Path) -> list[Path]:
    """Return the files with unsent spans, oldest first."""
    found: list[tuple[float, str, Path]] = []
    for path in folder.glob("*.jsonl") if folder.is_dir() else ():
        with contextlib.suppress(FileNotFoundError):  # another program has just sent it
            found.append((path.stat().st_mtime, path.name, path))
    return [path for _, _, path in sorted(found)]


def grouped(lines: Iterable[RequestLine]) -> Iterator[list[RequestLine]]:
    """Yield groups of lines that fit into one request; only one group is held in memory."""
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
    """Sends lines and tracks the progress."""

    def __init__(self, link: CollectorLink) -> None:
        self._link = link
        self.sent = 0
        """Number of accepted spans."""
        self.end = 0
        """Offset in the file, in bytes, of the first request that was not accepted."""

    async def send(self, group: Sequence[RequestLine]) -> None:
        """Send lines as one request, or as several if one is too long for the collector.

        Raises:
            NotTakenError: not all of them were accepted.
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
    """Lock the folder against other programs, so that no span is sent twice."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | SAFE_OPEN_FLAGS)
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
    """Truncate the beginning of a file of ours up to `start`, or remove the file if no request follows."""
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
    parts = [part for line in lines for part in decode_json(line.data, type=_Request).resourceSpans]
    return msgspec.json.encode(_Request(parts))


def _spans_in(lines: Iterable[RequestLine]) -> int:
    return sum(map(_spans_in_line, lines))


def _spans_in_line(line: RequestLine) -> int:
    parts = decode_json(line.data, type=_Request).resourceSpans
    try:
        groups = [decode_json(part, type=_Group) for part in parts]
    except msgspec.ValidationError:  # spans of another program, left to the collector
        return 0
    return sum(len(scope.spans) for group in groups for scope in group.scopeSpans)
