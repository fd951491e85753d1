"""Lines typed by the user, read in a separate thread, because reading blocks. A line is read only on request: an
unrequested line belongs to the next session."""

import asyncio
import threading
from collections.abc import Sequence
from typing import TextIO

from ..commands.api import Choice
from ..text import lines

GIVEN_UP = ""
"""Returned in place of a line when waiting was given up."""


class LineReader:
    """Reader of a stream. Call `start` before the first line."""

    def __init__(self, stdin: TextIO) -> None:
        self._stdin = stdin
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._wanted = threading.Semaphore(0)
        self._awaited = False
        """True if a line was requested and has not arrived."""

    def start(self) -> None:
        """Start reading, in the running loop."""
        threading.Thread(target=self._read, args=(asyncio.get_running_loop(),), daemon=True).start()

    async def next(self) -> str | None:
        """Return the next line with its line break, `GIVEN_UP`, or None at the end of the input."""
        if not self._awaited:
            self._awaited = True
            self._wanted.release()
        line = await self._lines.get()
        self._awaited = line == GIVEN_UP
        return line

    def give_up(self) -> None:
        """End the current wait with `GIVEN_UP`; the line that arrives later goes to the next caller."""
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
            except RuntimeError:  # the loop is closed: nobody waits any more
                return


_MAX_ROWS = 40


PROMPT = "Number or part of a row (empty: cancel): "


class Listed:
    """Rows to pick from."""

    def __init__(self, title: str, choices: Sequence[Choice]) -> None:
        self._title, self._choices = title, tuple(choices)

    def rows(self) -> list[str]:
        """Return the title and the first rows with their numbers."""
        return [lines.one_line(self._title, 300), *self._shown(range(len(self._choices)))]

    def _shown(self, numbers: Sequence[int]) -> list[str]:
        found = [self._row(number) for number in numbers[:_MAX_ROWS]]
        more = len(numbers) - len(found)
        return [*found, f"… and {more} more: a part of a row finds them"] if more else found

    def _row(self, number: int) -> str:
        choice = self._choices[number]
        detail = f", {lines.one_line(choice.detail, 200)}" if choice.detail else ""
        key = f"{choice.key} " if choice.key else ""
        return f"[{number + 1}] {key}{lines.one_line(choice.label, 200)}{detail}"

    def take(self, line: str) -> tuple[str | None, list[str]]:
        """Return the picked value (empty: cancelled; None: not clear yet), and the text to print in reply."""
        word = line.strip().lower()
        if not word:
            return "", []
        if word.isdecimal() and 1 <= int(word) <= len(self._choices):
            return self._choices[int(word) - 1].value, []
        fitting = self._fitting(word)
        if len(fitting) == 1:
            return self._choices[fitting[0]].value, []
        return None, self._shown(fitting) if fitting else ["No match."]

    def _fitting(self, word: str) -> list[int]:
        """Return the rows equal to this word, else those that contain all its words."""
        rows = [(at, choice, f"{choice.label} {choice.detail}".lower()) for at, choice in enumerate(self._choices)]
        same = [at for at, choice, _ in rows if word in (choice.value.lower(), choice.label.lower(), choice.key)]
        return same or [at for at, _, text in rows if all(part in text for part in word.split())]
