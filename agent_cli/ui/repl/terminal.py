"""The terminal itself: which of its modes are switched on while the prompt stands, how an update is sent in one
piece, how keys and pastes are read from it, and job control (Ctrl-Z, `fg`).

Apart from the screen, which knows only rows and keys. What is switched on here is undone by
`terminal_modes.RESET`, by whoever has to when the program could not.
"""

import asyncio
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TextIO

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.vt100 import Vt100_Output

from agent_cli.protocol.lazy_regex import lazy_regex

from ..signals import signal_handlers
from ..text import lines
from .terminal_modes import MODES_OFF, MODES_ON, PASTE_BEGIN, PASTE_END, TypeAhead

FOCUS_IN, FOCUS_OUT = Keys.ControlF23, Keys.ControlF24
"""Keys that no keyboard has, for the reports of a terminal that its window got or lost the focus."""

_LINE_BREAK = (Keys.Escape, Keys.ControlM)
_SEQUENCES: dict[str, Keys | tuple[Keys, ...]] = {
    "\x1b[I": FOCUS_IN,
    "\x1b[O": FOCUS_OUT,
    **{f"\x1b[27;{modifier};13~": _LINE_BREAK for modifier in range(2, 9)},
    **{f"\x1b[13;{modifier}u": _LINE_BREAK for modifier in range(2, 9)},
}
"""What terminals send beyond what the library knows. Enter with any modifier breaks the line."""

_NO_TEXT = lazy_regex("[\ud800-\udfff]")
"""Bytes that are no UTF-8, as the library hands them on."""
_LOST_S = 1.0
_BURST_CHARS = 24
"""More than a person types between two looks of the program at its input."""
_GATHER_CHARS = 512
_GATHER_S = 0.1
_NEXT_PIECE_S = 0.005
_SETTLED_S = 0.5
"""How long after `fg` the signals that came with it may still arrive."""


class Terminal(Vt100_Output):
    """A terminal that is never asked for its cursor position, and that can take an update in one piece."""

    holding = False
    _has_modes = False

    @property
    def responds_to_cpr(self) -> bool:
        """Never: the answer of a slow terminal would be taken for keys."""
        return False

    def hold(self) -> None:
        """Collect output until `release`; terminals that know how show it all at once."""
        if not self.holding:
            self.write_raw("\x1b[?2026h")
            self.holding = True

    def release(self) -> None:
        """Send what was collected."""
        if self.holding:
            self.holding = False
            self.write_raw("\x1b[?2026l")
            self.flush()

    def give_back(self) -> None:
        """The prompt is over, perhaps in the middle of an update: all modes off."""
        self.release()
        if self._has_modes:
            self.disable_bracketed_paste()
            self.flush()

    def flush(self) -> None:
        """Send what was written, unless it is being collected."""
        if not self.holding:
            super().flush()

    def erase_down(self) -> None:
        """Away with what stands below; the cursor is at the beginning of a row. From the very first cell some
        terminals (tmux) would take this for clearing the screen, and keep what they clear in their scrollback."""
        self.write_raw(" \x1b[J\b")

    def enable_bracketed_paste(self) -> None:
        """The prompt takes the terminal: all modes on, unless they are."""
        if not self._has_modes:
            self._has_modes = True
            super().enable_bracketed_paste()
            self.write_raw(MODES_ON)

    def disable_bracketed_paste(self) -> None:
        """The prompt gives the terminal back, to an editor or to a shell; during an update it does not, for a
        paste must stay a paste."""
        if not self.holding:
            self._has_modes = False
            super().disable_bracketed_paste()
            self.write_raw(MODES_OFF)


def open_terminal() -> Terminal:
    """Return the terminal on standard output."""
    terminal = Terminal.from_pty(sys.stdout, term=os.environ.get("TERM"))
    assert isinstance(terminal, Terminal)
    return terminal


class Keyboard(Vt100Input):
    """Keys from a terminal. What arrives too fast for fingers is read in one go and, when it has several lines,
    is a paste, bracketed or not."""

    def __init__(self, stdin: TextIO, ahead: TypeAhead | None = None) -> None:
        """`ahead` has the keys that were typed before."""
        super().__init__(stdin)
        ANSI_SEQUENCES.update(_SEQUENCES)
        self._in_paste = False
        self._read_at = 0.0
        self._ahead = ahead or TypeAhead()
        self._early = ""
        """What was typed before the terminal was ours, and is unread."""

    @property
    def has_early(self) -> bool:
        """Whether keys that were typed before the terminal was ours are still to be read."""
        return bool(self._early)

    def raw_mode(self) -> AbstractContextManager[None]:
        """Take the terminal; what was typed before is known from what comes later."""
        mode = super().raw_mode()
        self._ahead.take()
        self._early = self._ahead.hand_over()
        return mode

    @contextmanager
    def attach(self, input_ready_callback: Callable[[], None]) -> Iterator[None]:
        """Have keys read in the running loop; those that wait already are read at once."""
        with super().attach(input_ready_callback):
            if self._early:
                asyncio.get_running_loop().call_soon(input_ready_callback)
            yield

    def lend(self) -> None:
        """Set the modes that the program found, for whoever has the terminal while it is stopped."""
        self._ahead.lend()

    def again(self) -> None:
        """Take the terminal after another program has had it."""
        self._ahead.again()

    @property
    def is_settling(self) -> bool:
        """Whether that was done a moment ago, so that a signal that comes now has been answered."""
        return time.monotonic() - self._ahead.set_again_at < _SETTLED_S

    def read_keys(self) -> list[KeyPress]:
        """Return the keys that have arrived."""
        if self._early:
            early, self._early = self._early, ""
            self._parse(early)
        text = _NO_TEXT.sub("\ufffd", self._read_available())
        if self._in_paste and self._ends_paste(text):
            text = PASTE_END + text
        self._read_at = time.monotonic()
        if not self._in_paste and _is_burst(text):
            body = text.rstrip("\r\n") if text.count("\r") + text.count("\n") == 1 else text
            self._buffer.append(KeyPress(Keys.BracketedPaste, body))
            text = text[len(body) :]
        self._parse(text)
        keys, self._buffer = self._buffer, []
        return keys

    def _parse(self, text: str) -> None:
        self._in_paste = text.rfind(PASTE_BEGIN) > text.rfind(PASTE_END) or (
            self._in_paste and PASTE_END not in text
        )
        self.vt100_parser.feed(text)

    def _ends_paste(self, text: str) -> bool:
        """Return whether this is a person who wants out of a paste whose end never came."""
        return text == "\x03" or (text == "\x1b" and time.monotonic() - self._read_at > _LOST_S)

    def _read_available(self) -> str:
        """Return what there is to read; of a long text also what follows at once, so that it is looked at once."""
        pieces = [self.stdin_reader.read(1 << 16)]
        end = time.monotonic() + _GATHER_S
        while len(pieces[-1]) >= _GATHER_CHARS and time.monotonic() < end and self._more():
            pieces.append(self.stdin_reader.read(1 << 16))
        return "".join(pieces)

    def _more(self) -> bool:
        return bool(select.select([self.fileno()], [], [], _NEXT_PIECE_S)[0])


def _is_burst(text: str) -> bool:
    """Return whether a text without any control is a paste: several lines at once, or more than anybody types. One
    line with Enter behind it, as other programs send it, is typed."""
    if len(text) < _BURST_CHARS or "\x1b" in text:
        return False
    several = any(mark in text.rstrip("\r\n") for mark in "\r\n")
    return several or len(text) > _GATHER_CHARS


class JobControl:
    """The part a program has in it; `has_editor` says whether another one has the terminal right now."""

    def __init__(self, app: Application[Any], keyboard: Keyboard, has_editor: Callable[[], bool]) -> None:
        self._app, self._keyboard, self._has_editor = app, keyboard, has_editor
        self._stopping = False
        """Whether the program has stopped itself, so that what comes next is no surprise."""

    def answering(self) -> AbstractContextManager[None]:
        """Answer the signals of job control."""
        return signal_handlers({signal.SIGTSTP: self.stop, signal.SIGCONT: self._continued})

    def stop(self) -> None:
        """Give the terminal back and stop, as Ctrl-Z does with any program, until a shell's `fg`."""
        if self._stopping or self._keyboard.is_settling or not self._app.is_running:
            return
        if signal.getsignal(signal.SIGTSTP) == signal.SIG_IGN:
            return
        self._stopping = True
        if self._has_editor():  # it has the terminal, and has stopped as well
            self._stop()
        else:
            run_in_terminal(self._stop)

    def _stop(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGTSTP)  # the system's own meaning again: only then it stops
        if not self._has_editor():
            self._keyboard.lend()
        os.kill(0, signal.SIGTSTP)
        loop.add_signal_handler(signal.SIGTSTP, self.stop)
        loop.call_later(_SETTLED_S, self._end_stop)

    def _end_stop(self) -> None:
        self._stopping = False

    def _continued(self) -> None:
        """Somebody else has stopped the program and lets it go on: the terminal is another's work by now, so its
        modes are set anew, and what stands there stays."""
        if self._stopping or self._keyboard.is_settling or self._has_editor() or not self._app.is_running:
            return
        self._keyboard.again()
        self._app.renderer.reset()
        self._app.invalidate()


_SAVE, _RESTORE = "\x1b[22;2t", "\x1b[23;2t"
"""XTWINOPS: push the title on the terminal's stack, pop it; terminals without a stack ignore them."""
_TITLE_CHARS = 80


class WindowTitle:
    """The title while the REPL runs; `write` puts a sequence on the terminal."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._shown = ""

    def show(self, cwd: str, title: str) -> None:
        """Show a folder and the name of a session; nothing is written when they are shown already."""
        folder = os.path.basename(cwd) or cwd
        text = lines.one_line(" · ".join(filter(None, ("agent", folder, title))), _TITLE_CHARS)
        if text != self._shown:
            self._write(f"{'' if self._shown else _SAVE}\x1b]2;{text}\a")
            self._shown = text

    def restore(self) -> str:
        """Return what gives the window its own title back; empty when it has it."""
        return _RESTORE if self._shown else ""
