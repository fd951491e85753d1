"""Trace files: OTLP as JSON lines, or a Chrome trace for Perfetto where the name ends in `.json`. A span is
written when it ends, so that what ended is on disk however the program ends."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from agent_cli.fs.files import PLAIN, open_regular

from ..span import Span
from . import otlp_json
from .chrome_trace import BEGINNING as CHROME_BEGINNING
from .chrome_trace import ChromeTrace, trimmed_length

_TAIL_BYTES = 1 << 20
"""Of a Chrome trace that is gone on with; no event is as long."""


class TraceFileError(Exception):
    """A trace file cannot be written or read; the text says why and what to do."""


class SpanFile(Protocol):
    """A file that spans are written to."""

    path: Path

    def add(self, span: Span, encoded: bytes) -> None:
        """Write a span that has ended; `encoded` is what OTLP makes of it.

        Raises:
            OSError: it cannot be written.
        """
        ...

    def close(self) -> None:
        """End the file."""
        ...


def open_trace(path: Path, resource: Mapping[str, Any]) -> SpanFile:
    """Open a file for spans, or go on with one that is a trace already.

    Raises:
        TraceFileError: it is something else, or cannot be written.
    """
    is_chrome = path.suffix == ".json"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | PLAIN, 0o600)
    except IsADirectoryError:
        raise TraceFileError(f"--trace {path}: is a directory; name a file in it") from None
    except FileNotFoundError:
        raise TraceFileError(f"--trace {path}: its folder does not exist") from None
    except OSError as error:
        raise TraceFileError(f"--trace {path}: {error.strerror}") from error
    try:
        os.close(open_regular(path, follow=True))  # no pipe, which could make a turn wait
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
    """A JSON array without its end until it is closed: viewers take it so, and a file that was cut off too."""

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
        _write(self._descriptor, b"\n]\n")
        os.close(self._descriptor)

    def _put(self, events: list[bytes]) -> None:
        before = b"[\n" if self._is_empty else b",\n"
        self._is_empty = False
        _write(self._descriptor, before + b",\n".join(events))


def append_requests(path: Path, data: bytes) -> None:
    """Add lines to a file of requests that could not be sent, readable by the user alone.

    Raises:
        OSError: it cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | PLAIN, 0o600)
    try:
        _write(descriptor, data)
    finally:
        os.close(descriptor)


def read_requests(path: Path) -> tuple[list[bytes], int]:
    """Return the lines of a trace file that are whole requests, and how many were not.

    Raises:
        TraceFileError: it cannot be read, or holds no request at all.
    """
    try:
        descriptor = open_regular(path, follow=True)
    except OSError as error:
        raise TraceFileError(f"{path}: {error.strerror}") from error
    found, damaged = [], 0
    with os.fdopen(descriptor, "rb") as file:
        for line in file:
            if _is_request(line):
                found.append(line.rstrip(b"\n"))
            elif line.strip():
                damaged += 1
    if damaged and not found:
        raise TraceFileError(f"{path}: no file of traces, which has one OTLP request in JSON a line")
    return found, damaged


def _is_request(line: bytes) -> bool:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(value, dict) and isinstance(value.get("resourceSpans"), list)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
