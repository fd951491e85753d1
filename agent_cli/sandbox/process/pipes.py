"""The output of a process on its way into a sink, as seen from the event loop."""

import asyncio
import os
from collections.abc import Callable

_CHUNK = 65536


class Collected:
    """A sink that keeps what it is given, up to a bound."""

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
    """A sink wants no more."""


class Pipe:
    """The reading end of a pipe, emptied into a sink by the event loop."""

    def __init__(self, fd: int, sink: Callable[[bytes], None]) -> None:
        self.fd = fd
        self.error: Exception | None = None
        """What the sink raised."""
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

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
        except Exception as error:  # it goes to whoever awaits the process
            self.error = error
            self.close()

    def close(self) -> None:
        """Stop reading; safe to call twice, and after the loop was closed."""
        if not self.ended.done():
            settle(self.ended)
            self._loop.remove_reader(self.fd)
            os.close(self.fd)


def settle(future: "asyncio.Future[None]") -> None:
    """Give a future its result, if it has none."""
    try:
        if not future.done():
            future.set_result(None)
    except RuntimeError:  # its loop is closed: it has its result, but nobody is left to be told
        pass
