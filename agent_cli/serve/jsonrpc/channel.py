"""Line-based channels over a pair of pipes or a socket.

Pipes are read and written by threads, and none of them is ever joined: a client that neither reads nor closes its
end cannot keep the program from ending.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from agent_cli.fs.waiting_io import read_waiting, write_waiting

LONGEST_LINE = 64_000_000
_CHUNK = 65_536
_MOST_LINES = 64
"""Maximum number of unprocessed lines before reading from a pipe pauses."""
_UNSENT = 262_144
"""Number of unsent bytes above which `writable` waits."""
_DRAIN_S = 2.0


class LineTooLong(Exception):
    """The other side sends a line without an end."""

    def __init__(self) -> None:
        """Create the error with the limit in its message."""
        super().__init__(f"A message is longer than {LONGEST_LINE // 1_000_000} MB.")


class Channel(Protocol):
    """Both directions of a connection."""

    def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines that arrive, except for empty ones, until the other side closes, also in the middle of
        one.

        Raises:
            LineTooLong: a line exceeds the limit; nothing more can be read.
        """

    def write(self, data: bytes) -> None:
        """Queue data for sending. Never blocks, and does nothing after the other side has gone."""

    @property
    def unsent(self) -> int:
        """Number of bytes queued for sending."""

    async def writable(self) -> None:
        """Wait until few bytes are queued, or the other side has gone."""

    async def aclose(self) -> None:
        """Flush the queue, waiting only as long as a client that reads may need, and close."""


class PipeChannel(Channel):
    """A channel over two descriptors, which are not closed: a thread may still be waiting on one."""

    unsent = 0

    def __init__(self, source: int, sink: int) -> None:
        """Read from `source`, write to `sink`."""
        self._source, self._sink = source, sink
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._ready.set()
        self._over = asyncio.Event()
        threading.Thread(target=self._write, daemon=True).start()

    async def lines(self) -> AsyncIterator[bytes]:
        found = asyncio.Queue[bytes | LineTooLong | None]()
        room = threading.Semaphore(_MOST_LINES)

        def put(line: bytes | LineTooLong | None) -> None:
            room.acquire()
            self._tell(found.put_nowait, line)

        threading.Thread(target=_read, args=(self._source, put), daemon=True).start()
        while (line := await found.get()) is not None:
            room.release()
            if isinstance(line, LineTooLong):
                raise line
            if line.strip():
                yield line

    def write(self, data: bytes) -> None:
        if self._over.is_set():
            return
        self.unsent += len(data)
        if self.unsent > _UNSENT:
            self._ready.clear()
        self._queue.put(data)

    async def writable(self) -> None:
        await self._ready.wait()

    async def aclose(self) -> None:
        self._queue.put(None)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), _DRAIN_S)

    def _write(self) -> None:
        """Write what is queued; in a thread, because a full pipe blocks."""
        with contextlib.suppress(OSError):
            while (data := self._queue.get()) is not None:
                write_waiting(self._sink, data)
                self._tell(self._sent, len(data))
        self._tell(self._ended)

    def _tell(self, what: Callable[..., None], *values: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(what, *values)

    def _sent(self, count: int) -> None:
        self.unsent -= count
        if self.unsent <= _UNSENT:
            self._ready.set()

    def _ended(self) -> None:
        self._over.set()
        self._ready.set()


def _read(source: int, put: Callable[[bytes | LineTooLong | None], None]) -> None:
    rest = bytearray()
    with contextlib.suppress(OSError):
        while chunk := read_waiting(source, _CHUNK):
            rest += chunk
            if b"\n" in chunk:
                *lines, last = bytes(rest).split(b"\n")
                rest = bytearray(last)
                for line in lines:
                    put(line)
            elif len(rest) > LONGEST_LINE:
                put(LineTooLong())
                return
    put(bytes(rest))
    put(None)


class SocketChannel(Channel):
    """A channel over a connected socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """`reader` and `writer` are the streams of a connection opened with `limit=LONGEST_LINE`."""
        self._reader = reader
        self._writer = writer

    async def lines(self) -> AsyncIterator[bytes]:
        while True:
            try:
                line = await self._reader.readline()
            except ValueError as error:
                raise LineTooLong from error
            except OSError:
                return
            if not line:
                return
            if line.strip():
                yield line.removesuffix(b"\n")

    def write(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)

    @property
    def unsent(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    async def writable(self) -> None:
        with contextlib.suppress(OSError):
            await self._writer.drain()

    async def aclose(self) -> None:
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(_DRAIN_S):
                await self._writer.drain()
        self._writer.transport.abort()
