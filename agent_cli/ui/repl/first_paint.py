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
"""From so many rows on, a blank one stands above the prompt."""
AGAIN_QUITS = "Ctrl-C again quits"
_HINT_S = 1.0
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


class FirstPaint:
    """What a new session begins with, as the renderer and the screen draw it: the banner, the prompt, the status
    line. Painted as soon as its facts are known, while everything else is loaded. The keyboard belongs to it, and
    job control, until the line editor is there."""

    def __init__(self, settings: Ui, branch: str = "", keyboard: TypeAhead | None = None) -> None:
        """Nothing is painted where there is no terminal, or no room. `keyboard` is that of the session before."""
        self.banner = ""
        """What was printed for good; empty when nothing was painted."""
        self.branch = branch
        """The git branch in the workspace, as it was read for this session."""
        self.keyboard = keyboard or TypeAhead()
        self._began: SessionStarted | None = None
        """What the banner tells."""
        self._live = ""
        """What stands below the banner; empty when nothing does."""
        self._mode: Mode = "ask"
        self._theme = choose(settings)
        self._columns = 0
        """Columns of the terminal when the banner was painted."""
        self._has_terminal = not is_plain(settings, sys.stdin, sys.stdout)

    def take(self) -> None:
        """Take the keyboard and job control, where there is a terminal."""
        if self._has_terminal:
            self.keyboard.take()
            for number, answer in ((_signal.SIGTSTP, self._stop), (_signal.SIGCONT, self._continue)):
                if _signal.getsignal(number) == _signal.SIG_DFL:
                    _signal.signal(number, answer)

    def watch(self, loop: "AbstractEventLoop", leave: Callable[[], None], interrupt: Callable[[], None]) -> None:
        """Have a loop look for keys that leave, as long as there is no line editor. `interrupt` is what a Ctrl-C
        means where no prompt stands."""

        def hint() -> None:
            before, hinted = self._live, self._rows(AGAIN_QUITS)
            if not before:
                return interrupt()
            self._show_live(hinted)
            loop.call_later(_HINT_S, lambda: self._show_live(before) if self._live == hinted else None)

        self.keyboard.watch(loop, leave, hint)

    def show(self, now: Snapshot) -> None:
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
        self._paint(began, lambda columns: render_status(now, self.branch, self._theme, columns))

    def show_expected(self, began: SessionStarted) -> None:
        """Paint what a session will most likely begin with, before it is there."""
        self._paint(began, lambda columns: render_first_status(began, self.branch, self._theme, columns))

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

    def banner_at(self, columns: int) -> str:
        """Return what was printed for good, as it would be in a window of that width; empty when nothing was."""
        return _banner(self._began, self._theme, columns) if self.banner and self._began else ""

    def end(self) -> None:
        """Take away what does not stay, and give the terminal back as it was found."""
        self.give_way()
        self.keyboard.give_back()
        for number, answer in ((_signal.SIGTSTP, self._stop), (_signal.SIGCONT, self._continue)):
            if _signal.getsignal(number) == answer:
                _signal.signal(number, _signal.SIG_DFL)

    def _paint(self, began: SessionStarted, status_at: Callable[[int], str]) -> None:
        """Paint what is not there yet, for the window as it is now."""
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
        """Have this stand below the banner, in place of what does."""
        if live != self._live:
            self._write((_OVER_IT_ALL if self._live else "") + live)
            self._live = live

    def _take_back(self) -> None:
        """Take everything away."""
        self.give_way()
        if self.banner:
            rows = sum(max(1, -(-lines.cells(line) // _size()[0])) for line in self.banner.splitlines())
            self._write(f"\r\x1b[{rows}A\x1b[J")
            self.banner = ""

    def _stop(self, number: int, frame: Any) -> None:
        """Stop as any program does, with the terminal as it was found, and go on as before."""
        live = self._live
        self.give_way()
        self.keyboard.lend()
        for each, action in ((_signal.SIGCONT, _signal.SIG_IGN), (_signal.SIGTSTP, _signal.SIG_DFL)):
            _signal.signal(each, action)
        os.kill(0, _signal.SIGTSTP)
        for each, answer in ((_signal.SIGCONT, self._continue), (_signal.SIGTSTP, self._stop)):
            _signal.signal(each, answer)
        self.keyboard.again()
        if live:
            self._show_live(live)

    def _continue(self, number: int, frame: Any) -> None:
        """Go on where somebody else has stopped the program: what stands on the screen stays."""
        self.keyboard.again()
        self._write(self._live)

    @staticmethod
    def _write(text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone, which the screen finds out
            os.write(sys.stdout.fileno(), text.encode())
