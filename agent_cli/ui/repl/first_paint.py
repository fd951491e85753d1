"""The first paint of the REPL, before the line editor is loaded: the banner, the prompt and the status line."""

import contextlib
import os
import sys
import termios

from agent_cli import __version__
from agent_cli.protocol.actions import Mode
from agent_cli.protocol.client import Snapshot
from agent_cli.protocol.events import SessionStarted

from ..render.notices import render_notice
from ..text.theme import Theme
from .status_line import render_status

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
    line."""

    def __init__(self, theme: Theme, now: Snapshot, branch: str) -> None:
        """Nothing is painted of a session that goes on, whose turns come first, nor where there is no room."""
        self.banner = ""
        """What was printed for good; empty when nothing was painted."""
        self._live = ""
        self._silent = False
        """Whether the terminal's echo is off, and was on."""
        columns, rows = _size()
        goes_on = now.turns or now.totals.requests or now.unsent  # its turns may all be undone
        if goes_on or rows < AIRY_ROWS:
            return
        began = SessionStarted(
            session_id=now.session_id,
            model=now.model,
            cwd=now.cwd,
            mode=now.mode,
            sandbox=now.sandbox,
            version=__version__,
        )
        self.banner = "".join(f"{line}\n" for line in render_notice(began, theme, columns))
        mark = prompt_mark(now.mode, theme)
        self._live = f"\n{mark} \n{render_status(now, branch, theme, columns)}{_BACK_TO_PROMPT}"

    def show(self) -> None:
        """Paint it. What is typed from here on is not echoed, so that the cursor stays in the prompt's row."""
        if self.banner:
            self._silent = _silenced()
            self._write(_OVER_ECHO + self.banner + self._live)

    def give_way(self) -> None:
        """Take the prompt and the status line away, for the screen to draw them; the banner stays."""
        if self.banner:
            self._write(_OVER_IT_ALL)
        self.end()

    def end(self) -> None:
        """Have the terminal echo again, if it did."""
        if self._silent:
            self._silent = False
            _set_echo(True)

    @staticmethod
    def _write(text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone, which the screen finds out
            sys.stdout.write(text)
            sys.stdout.flush()
