"""A program in a pseudo-terminal, with an emulated screen: what a person would see."""

import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pyte

FORBIDDEN = re.compile(
    rb"\x1b\[[23]J|\x1b\[\d*[ST]|\x1b\[\?(?:1049|1047|47)[hl]|\x1b\[\d*;?\d*r|\x1bc|\x1b\[6n|\x1b\[\?10(?:0[0-35-6]|15)h"
)
"""Clearing the screen, scrolling it, the alternate screen, scroll regions, resets, questions to the terminal, the
mouse."""


class Scrollback(pyte.HistoryScreen):
    """A screen with a history that nobody pages through: pyte makes sure of that at every attribute it reads."""

    __getattribute__ = object.__getattribute__  # type: ignore[assignment]


class ReflowingScreen(Scrollback):
    """A terminal that breaks its rows anew when it gets narrower, as most do."""

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """The rows on the screen in the new width; what finds no place goes to the scrollback."""
        lines, columns = lines or self.lines, columns or self.columns
        rows, cursor = [], (self.cursor.y, self.cursor.x)
        for y in range(self.lines):
            row = self.buffer[y]
            width = max((x + 1 for x, cell in row.items() if cell.data != " "), default=0)
            if y == self.cursor.y:
                cursor = (len(rows) + self.cursor.x // columns, self.cursor.x % columns)
            for begin in range(0, max(1, width), columns):
                rows.append({x - begin: row[x] for x in range(begin, min(begin + columns, width))})
        used = max([cursor[0], *(at for at, row in enumerate(rows) if row)]) + 1
        gone = max(0, used - lines)
        super().resize(lines, columns)
        self.buffer.clear()
        for row in rows[:gone]:
            self.history.top.append(self._as_line(row))
        for y, row in enumerate(rows[gone : gone + lines]):
            self.buffer[y].update(row)
        self.cursor.y, self.cursor.x = max(0, cursor[0] - gone), cursor[1]

    def _as_line(self, row: dict[int, pyte.screens.Char]) -> pyte.screens.StaticDefaultDict:
        line = pyte.screens.StaticDefaultDict(self.default_char)
        line.update(row)
        return line


class Terminal:
    """Runs `python script` in a pty; `lines` holds everything shown, scrollback first."""

    def __init__(
        self,
        script: str,
        *,
        columns: int = 80,
        rows: int = 24,
        emulation: type[Scrollback] = Scrollback,
        typed_ahead: str = "",
        **env: str,
    ) -> None:
        """`typed_ahead` is typed before the program starts."""
        self.screen = emulation(columns, rows, history=20_000, ratio=0.5)
        self._stream = pyte.ByteStream(self.screen)
        self.log = b""
        self._scrolled: dict[int, tuple[object, str]] = {}
        self._text, self._text_of = "", (-1, 0, 0)
        """Everything shown when there was so much output and the window was so large: asked for every few ms."""
        primary, secondary = pty.openpty()
        self._fd = primary
        self.resize(columns, rows)
        self.before = self.modes()
        """The modes before the program began."""
        root = Path(__file__).resolve().parents[2]
        clean = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "EDITOR", "VISUAL")}
        clean |= {"TERM": "xterm-256color", "PYTHONPATH": str(root)} | env
        self.send(typed_ahead)
        self.process = self.started(script, secondary, clean)
        os.close(secondary)

    def started(self, script: str, terminal: int, env: dict[str, str]) -> "subprocess.Popen[bytes]":
        """The program, at home in a terminal."""
        return subprocess.Popen(
            [sys.executable, "-c", script], stdin=terminal, stdout=terminal, stderr=terminal, env=env,
            start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._fd)

    def resize(self, columns: int, rows: int) -> None:
        """What a window manager does."""
        ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)
        if hasattr(self, "process"):
            os.killpg(self.process.pid, signal.SIGWINCH)

    def modes(self) -> list[object]:
        """What `stty -a` shows."""
        return termios.tcgetattr(self._fd)

    def cook(self) -> None:
        """What a shell does to the terminal's modes when a program has stopped."""
        modes = termios.tcgetattr(self._fd)
        modes[3] |= termios.ICANON | termios.ECHO | termios.ISIG
        termios.tcsetattr(self._fd, termios.TCSANOW, modes)

    def send(self, text: str | bytes) -> None:
        """Press keys."""
        os.write(self._fd, text if isinstance(text, bytes) else text.encode("utf-8"))

    def paste(self, text: str) -> None:
        """Paste as a terminal with bracketed paste does."""
        data = b"\x1b[200~" + text.encode("utf-8") + b"\x1b[201~"
        while data:
            self.pump(0.0)
            sent = os.write(self._fd, data[:2000])
            data = data[sent:]

    def pump(self, seconds: float) -> bool:
        """Read what the program writes for a while; False once it has ended."""
        end = time.monotonic() + seconds
        while True:
            ready, _, _ = select.select([self._fd], [], [], max(0.0, min(0.02, end - time.monotonic())))
            if ready:
                try:
                    data = os.read(self._fd, 65536)
                except OSError:
                    return False
                self.log += data
                self._stream.feed(data)
            elif time.monotonic() >= end:
                return True

    @property
    def lines(self) -> list[str]:
        """All lines, those that have scrolled away included."""
        shown = (self.screen.buffer[y] for y in range(self.screen.lines))
        return [*map(self._line, self.screen.history.top), *(_drawn(row, self.screen.columns) for row in shown)]

    def _line(self, row: Any) -> str:
        """A row that has scrolled away, which stays as it is; the row is kept so that no other gets its id."""
        key = id(row) * 1000 + self.screen.columns
        if key not in self._scrolled:
            self._scrolled[key] = (row, _drawn(row, self.screen.columns))
        return self._scrolled[key][1]

    @property
    def text(self) -> str:
        """Everything shown."""
        now = (len(self.log), self.screen.columns, self.screen.lines)
        if now != self._text_of:
            self._text, self._text_of = "\n".join(self.lines), now
        return self._text

    def wait(self, wanted: str, timeout: float = 60.0) -> None:
        """Until `wanted` (a regular expression) is shown."""
        self.until(lambda: re.search(wanted, self.text), timeout, f"never saw {wanted!r}")

    def until(self, condition: Callable[[], object], timeout: float = 60.0, otherwise: str = "waited") -> None:
        """Until `condition` holds, which is asked whenever something was written."""
        end = time.monotonic() + timeout
        while not condition():
            alive, known = True, len(self.log)
            while alive and len(self.log) == known and time.monotonic() < end:
                alive = self.pump(0.02)
            if condition():
                return
            assert alive and time.monotonic() < end, f"{otherwise} in:\n{self.text}"

    def wait_for_editor(self) -> None:
        """Until the line editor has the terminal; the prompt is painted before."""
        self.until(lambda: b"\x1b[?1004h" in self.log, otherwise="the line editor never came")

    def finish(self, timeout: float = 60.0) -> int:
        """Until the program ends; its exit code."""
        end = time.monotonic() + timeout
        while self.pump(0.05):
            assert time.monotonic() < end, f"still runs:\n{self.text}"
        return self.process.wait(timeout=90)


def _drawn(row: Any, columns: int) -> str:
    """A row as text, in a fraction of the time that `Screen.display` takes: the second cell of a wide sign is empty,
    and behind the last cell that was written there are spaces."""
    last = min(columns, max(row, default=-1) + 1)
    return "".join(row[x].data for x in range(last)).rstrip()
