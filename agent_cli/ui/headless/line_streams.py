"""Line-based input and output on descriptors that may block without limit.

Threads read and write, and waiting for them is always bounded: a program that neither reads nor closes its end
cannot keep this one from ending.
"""

import asyncio
import contextlib
import errno
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

import msgspec

from agent_cli.fs.waiting_io import read_waiting, write_waiting

MAX_LINE = 64_000_000
"""Maximum line length in bytes: more than the images of any prompt. Of a longer line only the beginning is
kept."""
_CHUNK = 65_536
_READ_AHEAD = 16
"""Maximum number of lines read ahead; a faster sender has to wait."""

Read = TypeVar("Read")


class Line(msgspec.Struct, frozen=True):
    """A line of input."""

    number: int
    """Number of the line, from 1."""
    data: bytes
    is_whole: bool = True
    """False if the line was longer than `MAX_LINE`."""


async def lines_of(source: int, read: Callable[[Line], Read]) -> AsyncIterator[Read]:
    """Yield `read(line)`, called in a thread, for each line that is not blank, to the end of the input."""
    loop = asyncio.get_running_loop()
    found: asyncio.Queue[Read | None] = asyncio.Queue()
    room = threading.Semaphore(_READ_AHEAD)

    def work() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for lines any more
            with contextlib.suppress(OSError):
                for line in _lines(source):
                    room.acquire()
                    loop.call_soon_threadsafe(found.put_nowait, read(line))
            loop.call_soon_threadsafe(found.put_nowait, None)

    threading.Thread(target=work, daemon=True).start()  # ends with the program
    while (line := await found.get()) is not None:
        room.release()
        yield line


def _lines(source: int) -> Iterator[Line]:
    """Yield the lines, including a last line without a line break."""
    number, rest = 1, bytearray()
    while chunk := read_waiting(source, _CHUNK):
        *ended, last = chunk.split(b"\n")
        for part in ended:
            yield from _line(number, rest + part)
            number, rest = number + 1, bytearray()
        if len(rest) <= MAX_LINE:
            rest += last
    yield from _line(number, rest)


def _line(number: int, data: bytearray) -> Iterator[Line]:
    if data.strip():
        yield Line(number, bytes(data[:MAX_LINE]), len(data) <= MAX_LINE)


class ThreadedOutput:
    """Writes text to a descriptor in a thread, in order and without buffering.

    Attributes:
        failure: why text was lost; empty if the reader merely closed the pipe.
        closed: set when nothing can be written any more.
    """

    interrupted = 0
    columns = 1_000_000
    """Lines are never broken."""

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self.failure = ""
        self.closed = asyncio.Event()
        self._is_drained = asyncio.Event()
        threading.Thread(target=self._work, daemon=True).start()

    def write(self, text: str) -> None:
        """Queue text for writing, without waiting for the reader."""
        self._queue.put(text)

    async def drained(self) -> None:
        """Wait until all text is written or writing has failed. Call `write` no more afterwards."""
        self._queue.put(None)
        await self._is_drained.wait()

    def _work(self) -> None:
        try:
            while (text := self._queue.get()) is not None:
                write_waiting(self._sink, text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            if error.errno != errno.EPIPE:
                self.failure = error.strerror or str(error)
            self._tell(self.closed)
        self._tell(self._is_drained)

    def _tell(self, event: asyncio.Event) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(event.set)
