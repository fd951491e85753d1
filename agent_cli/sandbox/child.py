"""A running child and its pipes, as seen from the event loop. Starting one is `process`'s business."""

import asyncio
import os
import subprocess
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
        self.error: Exception | None = None
        """What the sink raised."""
        self._fd = fd
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    def _read(self) -> None:
        try:
            chunk = os.read(self._fd, _CHUNK)
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
        """Stop reading; safe to call twice."""
        if not self.ended.done():
            self.ended.set_result(None)
            self._loop.remove_reader(self._fd)
            os.close(self._fd)


class Child:
    """A started process; `exited` is set once it has been reaped."""

    def __init__(self, popen: "subprocess.Popen[bytes]", tag: str, pipes: tuple[Pipe, ...]) -> None:
        self.pid = popen.pid
        self.tag = tag
        self.pipes = pipes
        self._popen = popen
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = self._loop.create_future()
        self._pidfd = _open_pidfd(popen.pid)
        if self._pidfd is None:
            self._poll(0.001)
        else:
            self._loop.add_reader(self._pidfd, self._reap)

    @property
    def exit_code(self) -> int:
        """128 + n for death by signal n; 137 while it cannot be reaped."""
        code = self._popen.returncode
        if code is None:
            return 137
        return code if code >= 0 else 128 - code

    async def ends_within(self, timeout_s: float) -> bool:
        """Wait for the exit.

        Raises:
            Exception: what a sink raised meanwhile.
        """
        end = self._loop.time() + timeout_s
        while not self.exited.done():
            if (left := end - self._loop.time()) <= 0:
                return False
            open_pipes = {pipe.ended for pipe in self.pipes if not pipe.ended.done()}
            await asyncio.wait({self.exited} | open_pipes, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            self._raise_errors()
        return True

    async def drained(self, timeout_s: float) -> None:
        """Wait for the ends of all pipes, but not longer than `timeout_s`."""
        if open_pipes := {pipe.ended for pipe in self.pipes if not pipe.ended.done()}:
            await asyncio.wait(open_pipes, timeout=timeout_s)
        self._raise_errors()

    def _raise_errors(self) -> None:
        for pipe in self.pipes:
            if pipe.error:
                raise pipe.error

    def _reap(self) -> None:
        if self._popen.poll() is None or self.exited.done():
            return
        self.exited.set_result(None)
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)

    def _poll(self, delay_s: float) -> None:
        self._reap()
        if not self.exited.done():
            self._loop.call_later(delay_s, self._poll, min(delay_s * 1.5, 0.03))


def _open_pidfd(pid: int) -> int | None:
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        return int(opener(pid))
    except OSError:
        return None
