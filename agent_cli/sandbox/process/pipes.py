"""The output of a process, read by the event loop into a sink."""

import asyncio
import os
from collections.abc import Callable

_CHUNK = 65536


class Collected:
    """A sink that stores what it receives, up to a limit."""

    def __init__(self, max_bytes: int | None, *, fatal: bool) -> None:
        self.data = bytearray()
        self.full = False
        self._max_bytes = max_bytes
        self._fatal = fatal

    def __call__(self, chunk: bytes) -> None:
        if self._max_bytes is None or len(self.data) + len(chunk) <= self._max_bytes:
            self.data += chunk
            return
        self.data += chunk[: self._max_bytes - len(self.data)]
        self.full = True
        if self._fatal:
            raise EnoughError


class EnoughError(Exception):
    """A sink has reached its limit."""


class Pipe:
    """The reading end of a pipe; once opened, the event loop empties it into a sink."""

    def __init__(self, fd: int, sink: Callable[[bytes], None]) -> None:
        self.fd = fd
        self.error: Exception | None = None
        """The exception that the sink raised."""
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(fd, False)

    def open(self) -> None:
        """Begin to read."""
        self._loop.add_reader(self.fd, self._read)

    def drain(self) -> bytes:
        """Read what is there instead of opening it."""
        try:
            return os.read(self.fd, _CHUNK)
        except OSError:
            return b""

    def _read(self) -> None:
        try:
            chunk = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return
        try:
            self._sink(chunk)
        except Exception as error:  # it is raised to the caller that awaits the process
            self.error = error
            self.close()

    def close(self) -> None:
        """Stop reading; safe to call twice, and after the loop is closed."""
        if not self.ended.done():
            settle(self.ended)
            self._loop.remove_reader(self.fd)
            os.close(self.fd)


def settle(future: "asyncio.Future[None]") -> None:
    """Resolve a future unless it is done."""
    try:
        if not future.done():
            future.set_result(None)
    except RuntimeError:  # its loop is closed: it is resolved, but no callback can run
        pass
