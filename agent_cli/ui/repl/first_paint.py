"""The first paint of the REPL, before the line editor is loaded: the banner, the prompt and the status line."""

import contextlib
import os
import sys
import termios

from agent_cli import __version__
from agent_cli.config.schema import Ui
from agent_cli.protocol.actions import Mode
from agent_cli.protocol.client import Snapshot
from agent_cli.protocol.events import SessionStarted

from ..render.notices import render_notice
from ..text import lines
from ..text.theme import Theme, choose, is_plain
from .status_line import render_first_status, render_status

AIRY_ROWS = 14
"""From so many rows on, a blank one stands above the prompt."""
_BACK_TO_PROMPT = "\x1b[A\r\x1b[2C"
_OVER_ECHO = "\r\x1b[K"
"""Over what was typed before anything was painted; it stands in the draft soon."""
_OVER_IT_ALL = "\r\x1b[A\x1b[J"
"""From the prompt's row to the blank one above it, and away with what stands there and below."""


def prompt_mark(mode: Mode, theme: Theme) -> str:
    """Return what the input line begins with, in the colour of the mode."""
    return theme.paint("prompt" if mode == "ask" else mode, ">")


def _banner(began: SessionStarted, theme: Theme, columns: int) -> str:
    return "".join(f"{line}\n" for line in render_notice(began, theme, columns))


def _size() -> tuple[int, int]:
    """Return columns and rows of the terminal; 80 by 24 where it does not say, as the screen takes it."""
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        columns, rows = 0, 0
    return columns or 80, rows or 24


def _silenced() -> bool:
    """Switch the echo off; returns whether it was on."""
    try:
        return bool(termios.tcgetattr(sys.stdin.fileno())[3] & termios.ECHO) and _set_echo(False)
    except (OSError, ValueError, termios.error):
        return False


def _set_echo(is_on: bool) -> bool:
    try:
        modes = termios.tcgetattr(sys.stdin.fileno())
        modes[3] = modes[3] | termios.ECHO if is_on else modes[3] & ~termios.ECHO
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, modes)
    except (OSError, ValueError, termios.error):  # the terminal is gone, which the screen finds out
        return False
    return True


class FirstPaint:
    """What a new session begins with, as the renderer and the screen draw it: the banner, the prompt, the status
    line. Painted as soon as its facts are known, while everything else is loaded."""

    def __init__(self, settings: Ui) -> None:
        """Nothing is painted where there is no terminal, or no room."""
        self.banner = ""
        """What was printed for good; empty when nothing was painted."""
        self._began: SessionStarted | None = None
        """What the banner tells."""
        self._live = ""
        self._is_silent = False
        """Whether the terminal's echo is off, and was on."""
        self._theme = choose(settings)
        self._columns, rows = _size()
        self._is_possible = not is_plain(settings, sys.stdin, sys.stdout) and rows >= AIRY_ROWS

    def show(self, now: Snapshot, branch: str) -> None:
        """Paint it, over what was painted of it before. Nothing is painted of a session that goes on: its turns
        come first, and all of them may be undone."""
        if now.turns or now.totals.requests or now.unsent:
            return self._take_back()
        began = SessionStarted(
            session_id=now.session_id,
            model=now.model,
            cwd=now.cwd,
            mode=now.mode,
            sandbox=now.sandbox,
            version=__version__,
        )
        self._paint(began, render_status(now, branch, self._theme, self._columns))

    def show_expected(self, began: SessionStarted, branch: str) -> None:
        """Paint what a session will most likely begin with, before it is there."""
        self._paint(began, render_first_status(began, branch, self._theme, self._columns))

    def say(self, text: str) -> None:
        """Print lines for good, on standard error: below the banner."""
        if self._live:
            self._write(_OVER_IT_ALL)
        print(text, file=sys.stderr, flush=True)
        if self._live:
            self._write(self._live)

    def give_way(self) -> None:
        """Take the prompt and the status line away, for the screen to draw them; the banner stays."""
        if self._live:
            self._live = ""
            self._write(_OVER_IT_ALL)
        self.end()

    def banner_at(self, columns: int) -> str:
        """Return what was printed for good, as it would be in a window of that width; empty when nothing was."""
        return _banner(self._began, self._theme, columns) if self.banner and self._began else ""

    def end(self) -> None:
        """Have the terminal echo again, if it did."""
        if self._is_silent:
            self._is_silent = False
            _set_echo(True)

    def _paint(self, began: SessionStarted, status: str) -> None:
        """Paint what is not there yet. What is typed from here on is not echoed, so that the cursor stays in the
        prompt's row."""
        banner = _banner(began, self._theme, self._columns)
        live = f"\n{prompt_mark(began.mode, self._theme)} \n{status}{_BACK_TO_PROMPT}"
        if not self._is_possible or (banner, live) == (self.banner, self._live):
            return
        if banner != self.banner:
            self._take_back()
            self._is_silent = self._is_silent or _silenced()
            self._write(_OVER_ECHO + banner)
        else:
            self._write(_OVER_IT_ALL)
        self.banner, self._live, self._began = banner, live, began
        self._write(live)

    def _take_back(self) -> None:
        """Take everything away."""
        if self.banner:
            rows = sum(max(1, -(-lines.cells(line) // self._columns)) for line in self.banner.splitlines())
            self._write(f"{_OVER_IT_ALL}\x1b[{rows}A\x1b[J")
            self.banner = self._live = ""

    @staticmethod
    def _write(text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone, which the screen finds out
            sys.stdout.write(text)
            sys.stdout.flush()
