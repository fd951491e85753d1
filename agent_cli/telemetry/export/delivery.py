"""Deliver trace files that were written before: to the collector that the standard variables name."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from agent_cli.fs.files import replace_file

from .collector import CollectorLink, NotTakenError
from .otlp_settings import OtlpSettings
from .trace_file import TraceFileError, read_requests

_TOGETHER = 256
"""Lines of a file that are sent in one request."""
_MOST_BYTES = 4 << 20
"""Of one request; collectors refuse those that are much longer."""


class Delivery(msgspec.Struct, frozen=True):
    """What became of one file."""

    path: Path
    sent: int
    """Spans of it that were taken."""
    left: int
    """Spans that were not."""
    damaged: int
    """Lines that are no requests, such as one that was cut off by a crash."""
    problem: str = ""
    """Why not all were taken; empty where all were."""


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
        TraceFileError: it cannot be read, or is no file of traces.
    """
    lines, damaged = read_requests(path)
    link = CollectorLink(settings)
    sent, problem = 0, ""
    counts = [_spans_in(line) for line in lines]
    try:
        for count, request in _joined(lines):
            await link.send(request)
            sent += count
    except NotTakenError as error:
        problem = str(error)
    finally:
        await link.aclose()
    if link.rejected:
        problem = problem or f"{link.rejected} spans were refused"
    if path.parent == kept_in and sent:
        try:
            _leave(path, lines[sent:])
        except OSError as error:
            raise TraceFileError(f"{path}: sent, but it cannot be removed: {error.strerror}") from error
    return Delivery(path, sum(counts[:sent]), sum(counts[sent:]), damaged, problem)


def kept_files(folder: Path) -> list[Path]:
    """Return the files with what could not be sent, oldest first."""
    found = folder.glob("*.jsonl") if folder.is_dir() else ()
    return sorted(found, key=lambda path: (path.stat().st_mtime, path.name))


def _joined(lines: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield several lines as one request, with their number."""
    group: list[bytes] = []
    size = 0
    for line in lines:
        if group and (len(group) >= _TOGETHER or size + len(line) > _MOST_BYTES):
            yield len(group), _one(group)
            group, size = [], 0
        group.append(line)
        size += len(line)
    if group:
        yield len(group), _one(group)


def _one(lines: Sequence[bytes]) -> bytes:
    parts = [part for line in lines for part in msgspec.json.decode(line, type=_Request).resourceSpans]
    return msgspec.json.encode(_Request(parts))


def _spans_in(line: bytes) -> int:
    parts = msgspec.json.decode(line, type=_Request).resourceSpans
    try:
        groups = [msgspec.json.decode(part, type=_Group) for part in parts]
    except msgspec.ValidationError:  # of another program; the collector judges it
        return 0
    return sum(len(scope.spans) for group in groups for scope in group.scopeSpans)


def _leave(path: Path, rest: Sequence[bytes]) -> None:
    if rest:
        replace_file(path, b"".join(line + b"\n" for line in rest), mode=0o600)
    else:
        path.unlink()
