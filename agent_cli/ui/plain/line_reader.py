"""Lines as somebody types them, read in a thread of its own, since reading waits. A line is read only when it is
asked for: one that nobody asks for belongs to the next session."""

import asyncio
import threading
from typing import TextIO

GIVEN_UP = ""
"""In place of a line, when it is waited for no longer."""


class LineReader:
    """One reader of one stream. `start` before the first line."""

    def __init__(self, stdin: TextIO) -> None:
        self._stdin = stdin
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._wanted = threading.Semaphore(0)
        self._awaited = False
        """Whether a line was asked for and has not come."""

    def start(self) -> None:
        """Begin, in the running loop."""
        threading.Thread(target=self._read, args=(asyncio.get_running_loop(),), daemon=True).start()

    async def next(self) -> str | None:
        """The next line with its line break, `GIVEN_UP`, or None at the end of the input."""
        if not self._awaited:
            self._awaited = True
            self._wanted.release()
        line = await self._lines.get()
        self._awaited = line == GIVEN_UP
        return line

    def give_up(self) -> None:
        """Whoever waits for a line gets `GIVEN_UP`; the line that comes then is for the next who asks."""
        self._lines.put_nowait(GIVEN_UP)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            self._wanted.acquire()
            try:
                line = self._stdin.readline() or None
            except (OSError, ValueError):
                line = None
            try:
                loop.call_soon_threadsafe(self._lines.put_nowait, line)
            except RuntimeError:  # the loop is closed: nobody listens any more
                return
