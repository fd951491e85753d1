"""Trace files: OTLP as JSON lines, or a Chrome trace for Perfetto if the name ends in `.json`. A span is written
when it ends, so that finished spans are on disk however the program ends."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

import msgspec

from agent_cli.fs.files import SAFE_OPEN_FLAGS, open_regular, wait_for_lock
from agent_cli.protocol.json_text import decode_json

from ..span import Span
from . import otlp_json
from .chrome_trace import BEGINNING as CHROME_BEGINNING
from .chrome_trace import ChromeTrace, trimmed_length

_TAIL_BYTES = 1 << 20
"""Bytes read at the end of a Chrome trace that is continued; no event is that long."""
_LONGEST_LINE = 32 << 20
"""Maximum line length in bytes; our own lines are much shorter."""
_LOCK_S = 5.0
"""Seconds allowed for copying the rest of a file."""


class TraceFileError(Exception):
    """A trace file cannot be written or read; the text says why and what to do."""


class SpanFile(Protocol):
    """A file that spans are written to."""

    path: Path

    def add(self, span: Span, encoded: bytes) -> None:
        """Write a span that has ended; `encoded` is its OTLP form.

        Raises:
            OSError: it cannot be written.
        """

    def close(self) -> None:
        """Finish and close the file."""


def open_trace(path: Path, resource: Mapping[str, Any]) -> SpanFile:
    """Open a file for spans, or continue one that is a trace already.

    Raises:
        TraceFileError: it is something else, or cannot be written.
    """
    is_chrome = path.suffix == ".json"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | SAFE_OPEN_FLAGS, 0o600)
    except IsADirectoryError:
        raise TraceFileError(f"--trace {path}: is a directory; name a file in it") from None
    except FileNotFoundError:
        raise TraceFileError(f"--trace {path}: its folder does not exist") from None
    except OSError as error:
        raise TraceFileError(f"--trace {path}: {error.strerror}") from error
    try:
        os.close(open_regular(path, follow=True))  # not a pipe, which could block a turn
        beginning = os.pread(descriptor, 64, 0)
        if beginning and not beginning.startswith(CHROME_BEGINNING if is_chrome else otlp_json.BEGINNING):
            form = "Chrome trace" if is_chrome else "file of traces"
            raise TraceFileError(
                f"--trace {path}: the file exists and is no {form}; name another"
                " (.jsonl for OTLP, .json for Perfetto)"
            )
        return _ChromeFile(path, descriptor) if is_chrome else _LineFile(path, descriptor, resource)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, OSError):
            raise TraceFileError(f"--trace {path}: {error.strerror}") from error
        raise


class _LineFile:
    def __init__(self, path: Path, descriptor: int, resource: Mapping[str, Any]) -> None:
        self.path = path
        self._descriptor = descriptor
        self._envelope = otlp_json.Envelope(resource)
        end = os.lseek(descriptor, 0, os.SEEK_END)
        if end and os.pread(descriptor, 1, end - 1) != b"\n":  # cut off by a crash
            _write(descriptor, b"\n")

    def add(self, span: Span, encoded: bytes) -> None:
        _write(self._descriptor, self._envelope.around((encoded,)) + b"\n")

    def close(self) -> None:
        os.close(self._descriptor)


class _ChromeFile:
    """A JSON array that lacks its end until it is closed; viewers accept it in this form, and a truncated file,
    too."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._trace = ChromeTrace(os.getpid())
        end = os.lseek(descriptor, 0, os.SEEK_END)
        start = max(0, end - _TAIL_BYTES)
        end = start + trimmed_length(os.pread(descriptor, end - start, start))
        os.ftruncate(descriptor, end)
        self._is_empty = end == 0
        self._put(self._trace.beginning())

    def add(self, span: Span, encoded: bytes) -> None:
        self._put(self._trace.events(span))

    def close(self) -> None:
        try:
            _write(self._descriptor, b"\n]\n")
        finally:
            os.close(self._descriptor)

    def _put(self, events: list[bytes]) -> None:
        before = b"[\n" if self._is_empty else b",\n"
        _write(self._descriptor, before + b",\n".join(events))
        self._is_empty = False


def append_requests(path: Path, data: bytes, patience_s: float = _LOCK_S) -> None:
    """Append lines to a file of unsent requests, readable only by the user. `agent trace send` may replace or
    remove the file meanwhile.

    Raises:
        TimeoutError: another program holds the file for longer than `patience_s`.
        OSError: it cannot be written.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | SAFE_OPEN_FLAGS, 0o600)
        try:
            if lock_in_place(descriptor, path, patience_s):
                _write(descriptor, data)
                return
        finally:
            os.close(descriptor)


def lock_in_place(descriptor: int, path: Path, patience_s: float = _LOCK_S) -> bool:
    """Lock an open file until it is closed; return True if it is still the file at its path.

    Raises:
        TimeoutError: another program holds the lock for longer than `patience_s`.
    """
    try:
        wait_for_lock(descriptor, patience_s)
    except TimeoutError:
        raise
    except OSError:  # a file system without locks
        return True
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


class RequestLine(msgspec.Struct, frozen=True):
    """A line of a trace file that is a whole request."""

    data: bytes
    end: int
    """Offset of the next line in bytes."""


class RequestReader:
    """Reads a trace file line by line, so that a file of any size fits into memory. Use as a context manager."""

    def __init__(self, path: Path, start: int = 0) -> None:
        """Open the file, at the offset of the beginning of a line.

        Raises:
            TraceFileError: it cannot be read.
        """
        self.path = path
        self.damaged = 0
        """Number of lines that are not requests, such as one cut off by a crash."""
        self._is_any = False
        try:
            self._file = os.fdopen(open_regular(path, follow=True), "rb")
            self._file.seek(start)
        except OSError as error:
            raise TraceFileError(f"{path}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def descriptor(self) -> int:
        """The file descriptor."""
        return self._file.fileno()

    @property
    def size(self) -> int:
        """The current size of the file in bytes."""
        return os.fstat(self.descriptor).st_size

    def skip_to_last(self, size: int) -> bool:
        """Skip the lines before the last `size` bytes; return True if there are any."""
        if self.size <= size:
            return False
        self._file.seek(self.size - size - 1)
        self._line()
        return True

    def lines(self) -> Iterator[RequestLine]:
        """Yield the lines that are whole requests.

        Raises:
            TraceFileError: reading fails.
        """
        try:
            while line := self._line():
                if len(line) <= _LONGEST_LINE and _is_request(line):
                    self._is_any = True
                    yield RequestLine(line.rstrip(b"\n"), self._file.tell())
                elif line.strip():
                    self.damaged += 1
        except OSError as error:
            raise TraceFileError(f"{self.path}: {error.strerror}") from error

    def check(self) -> None:
        """Check that the file read is a trace.

        Raises:
            TraceFileError: none of its lines was a request.
        """
        if self.damaged and not self._is_any:
            raise TraceFileError(f"{self.path}: no file of traces, which has one OTLP request in JSON a line")

    def _line(self) -> bytes:
        """Return the next line; of a line that is too long only the beginning."""
        line = self._file.readline(_LONGEST_LINE + 1)
        rest = line
        while len(rest) > _LONGEST_LINE and not rest.endswith(b"\n"):
            rest = self._file.readline(_LONGEST_LINE + 1)
        return line


def _is_request(line: bytes) -> bool:
    try:
        value = decode_json(line)
    except msgspec.DecodeError:
        return False
    return isinstance(value, dict) and isinstance(value.get("resourceSpans"), list)


def _write(descriptor: int, data: bytes) -> None:
    """Append to a file, all or nothing.

    Raises:
        OSError: the disk is full.
    """
    written = 0
    try:
        while written < len(data):
            written += os.write(descriptor, memoryview(data)[written:])
    except OSError:
        end = os.fstat(descriptor).st_size
        if written and os.pread(descriptor, written, end - written) == data[:written]:
            os.ftruncate(descriptor, end - written)
        raise
