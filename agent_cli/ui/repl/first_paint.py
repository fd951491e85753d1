"""The first paint of the REPL, before the line editor is loaded: the banner, the prompt and the status line."""

import _signal  # type: ignore[import-not-found]  # `signal` is slow to load
import contextlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent_cli import __version__
from agent_cli.config.schema import Ui
from agent_cli.protocol.actions import Mode
from agent_cli.protocol.client import Snapshot
from agent_cli.protocol.events import SessionStarted

from ..render.notices import render_notice
from ..text import lines
from ..text.theme import Theme, choose, is_plain
from .status_line import render_first_status, render_status
from .terminal_modes import TypeAhead

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

AIRY_ROWS = 14
"""Minimum number of terminal rows for a blank row above the prompt."""
AGAIN_QUITS = "Ctrl-C again quits"
_HINT_S = 1.0
_BACK_TO_PROMPT = "\x1b[A\r\x1b[2C"
_OVER_ECHO = "\r\x1b[K"
"""Overwrites the echo of early keys, which appear in the draft soon."""
_OVER_IT_ALL = "\r\x1b[A\x1b[J"
"""Moves from the prompt's row to the blank row above it, and erases everything from there on."""


def prompt_mark(mode: Mode, theme: Theme) -> str:
    """Return the mark of the input line, in the colour of the mode."""
    return theme.paint("prompt" if mode == "ask" else mode, ">")


def _banner(began: SessionStarted, theme: Theme, columns: int) -> str:
    return "".join(f"{line}\n" for line in render_notice(began, theme, columns))


def _size() -> tuple[int, int]:
    """Return columns and rows of the terminal; 80 by 24 if unknown, as the screen assumes."""
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        columns, rows = 0, 0
    return columns or 80, rows or 24


class FirstPaint:
    """The first view of a new session, as the renderer and the screen draw it: banner, prompt and status line.
    Painted as soon as its contents are known, while everything else is loaded. It owns the keyboard and job
    control until the line editor is loaded."""

    def __init__(self, settings: Ui, branch: str = "", keyboard: TypeAhead | None = None) -> None:
        """Nothing is painted without a terminal or without room. `keyboard` is that of the previous session."""
        self.banner = ""
        """The banner printed permanently; empty if nothing was painted."""
        self.branch = branch
        """The git branch of the workspace, as read for this session."""
        self.keyboard = keyboard or TypeAhead()
        self._began: SessionStarted | None = None
        """Contents of the banner."""
        self._live = ""
        """Text below the banner; empty if there is none."""
        self._mode: Mode = "ask"
        self._theme = choose(settings)
        self._columns = 0
        """Width of the terminal in columns when the banner was painted."""
        self._has_terminal = not is_plain(settings, sys.stdin, sys.stdout)

    def take(self) -> None:
        """Take over the keyboard and job control, if there is a terminal."""
        if self._has_terminal:
            self.keyboard.acquire()
            for number, answer in ((_signal.SIGTSTP, self._stop), (_signal.SIGCONT, self._continue)):
                if _signal.getsignal(number) == _signal.SIG_DFL:
                    _signal.signal(number, answer)

    def watch(self, loop: "AbstractEventLoop", leave: Callable[[], None], interrupt: Callable[[], None]) -> None:
        """Watch for keys that leave, in a loop, until the line editor is loaded. `interrupt` handles Ctrl-C if no
        prompt is shown."""

        def hint() -> None:
            before, hinted = self._live, self._rows(AGAIN_QUITS)
            if not before:
                return interrupt()
            self._show_live(hinted)
            loop.call_later(_HINT_S, lambda: self._show_live(before) if self._live == hinted else None)

        self.keyboard.watch(loop, leave, hint)

    def show(self, now: Snapshot) -> None:
        """Paint the session's facts over what is painted so far. Nothing is painted for a resumed session: its
        turns come first, and all of them may be undone."""
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
        self._paint(began, lambda columns: render_status(now, self.branch, self._theme, columns))

    def show_expected(self, began: SessionStarted) -> None:
        """Paint the expected facts of a session before it is open."""
        self._paint(began, lambda columns: render_first_status(began, self.branch, self._theme, columns))

    def say(self, text: str) -> None:
        """Print lines permanently, on standard error, below the banner."""
        if not self._live:
            print(text, file=sys.stderr, flush=True)
            return
        self._write(_OVER_IT_ALL)
        print("\n".join(lines.wrap(text, _size()[0])), file=sys.stderr, flush=True)
        self._write(self._live)

    def give_way(self) -> None:
        """Erase the prompt and the status line, which the screen will draw; the banner stays."""
        if self._live:
            self._live = ""
            self._write(_OVER_IT_ALL)

    def banner_at(self, columns: int) -> str:
        """Return the banner as it would be printed in a window of this width; empty if none was printed."""
        return _banner(self._began, self._theme, columns) if self.banner and self._began else ""

    def end(self) -> None:
        """Erase the temporary rows, and restore the terminal and the signal handlers."""
        self.give_way()
        self.keyboard.give_back()
        for number, answer in ((_signal.SIGTSTP, self._stop), (_signal.SIGCONT, self._continue)):
            if _signal.getsignal(number) == answer:
                _signal.signal(number, _signal.SIG_DFL)

    def _paint(self, began: SessionStarted, status_at: Callable[[int], str]) -> None:
        """Paint what is not shown yet, for the current window size."""
        columns, rows = _size()
        if not self._has_terminal or rows < AIRY_ROWS:
            return
        self.take()
        if not self.banner or self.banner != _banner(began, self._theme, self._columns):
            self._take_back()
            self._columns, self._began = columns, began
            self.banner = _banner(began, self._theme, columns)
            self._write(_OVER_ECHO + self.banner)
        self._mode = began.mode
        self._show_live(self._rows(status_at(columns)))

    def _rows(self, status: str) -> str:
        return f"\n{prompt_mark(self._mode, self._theme)} \n{status}{_BACK_TO_PROMPT}"

    def _show_live(self, live: str) -> None:
        """Replace the text below the banner."""
        if live != self._live:
            self._write((_OVER_IT_ALL if self._live else "") + live)
            self._live = live

    def _take_back(self) -> None:
        """Erase everything, including the banner."""
        self.give_way()
        if self.banner:
            rows = sum(max(1, -(-lines.cells(line) // _size()[0])) for line in self.banner.splitlines())
            self._write(f"\r\x1b[{rows}A\x1b[J")
            self.banner = ""

    def _stop(self, number: int, frame: Any) -> None:
        """Stop like any program, with the terminal restored meanwhile, and continue as before."""
        live = self._live
        self.give_way()
        self.keyboard.suspend()
        for each, action in ((_signal.SIGCONT, _signal.SIG_IGN), (_signal.SIGTSTP, _signal.SIG_DFL)):
            _signal.signal(each, action)
        os.kill(0, _signal.SIGTSTP)
        for each, answer in ((_signal.SIGCONT, self._continue), (_signal.SIGTSTP, self._stop)):
            _signal.signal(each, answer)
        self.keyboard.resume()
        if live:
            self._show_live(live)

    def _continue(self, number: int, frame: Any) -> None:
        """Continue after another process has stopped the program; the text on the screen stays."""
        self.keyboard.resume()
        self._write(self._live)

    @staticmethod
    def _write(text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone; the screen notices it later
            os.write(sys.stdout.fileno(), text.encode())
