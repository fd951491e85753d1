"""Terminal control: modes while the prompt is shown, synchronized updates, reading of keys and pastes, and job
control (Ctrl-Z, `fg`).

Separate from the screen, which knows only rows and keys. `terminal_modes.RESET` undoes all modes set here, for use
by others if the program could not do it.
"""

import asyncio
import errno
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

from agent_cli.fs.waiting_io import write_to_terminal
from agent_cli.protocol.lazy_regex import lazy_regex

from ..signals import signal_handlers
from ..text import lines
from .terminal_modes import MODES_OFF, MODES_ON, PASTE_BEGIN, PASTE_END, TypeAhead

FOCUS_IN, FOCUS_OUT = Keys.ControlF23, Keys.ControlF24
"""Keys that no keyboard has, used for focus reports of the terminal."""

_LINE_BREAK = (Keys.Escape, Keys.ControlM)
_SEQUENCES: dict[str, Keys | tuple[Keys, ...]] = {
    "\x1b[I": FOCUS_IN,
    "\x1b[O": FOCUS_OUT,
    **{f"\x1b[27;{modifier};13~": _LINE_BREAK for modifier in range(2, 9)},
    **{f"\x1b[13;{modifier}u": _LINE_BREAK for modifier in range(2, 9)},
}
"""Sequences that terminals send but prompt_toolkit does not know. Enter with any modifier breaks the line."""

_NO_TEXT = lazy_regex("[\ud800-\udfff]")
"""Bytes that are not UTF-8, as prompt_toolkit decodes them."""
_LINES = lazy_regex(r"[^\x00-\x1f]+[\r\n]+[^\x00-\x1f]")
"""A line and the beginning of another one."""
_TWO_LINES = lazy_regex(r"(?:[^\x00-\x1f]+[\r\n]+){2}")
_LOST_S = 1.0
_BURST_CHARS = 24
"""More characters than a user types between two reads of the input; so are two lines."""
_GATHER_CHARS = 512
_GATHER_S = 0.1
_NEXT_PIECE_S = 0.005
_SETTLED_S = 0.5
"""Seconds after `fg` within which its signals may still arrive."""


class Terminal(Vt100_Output):
    """A terminal that is never asked for its cursor position, and that supports synchronized updates."""

    holding = False
    ended_by = 0
    """The signal that ends the program, so that output waits only some seconds for the terminal; 0 for none."""
    _has_modes = False

    @property
    def responds_to_cpr(self) -> bool:
        """False: the reply of a slow terminal would be taken for keys."""
        return False

    def hold(self) -> None:
        """Collect output until `release`; terminals that support it (mode 2026) show it in one update."""
        if not self.holding:
            self.write_raw("\x1b[?2026h")
            self.holding = True

    def release(self) -> None:
        """Send the collected output."""
        if self.holding:
            self.holding = False
            self.write_raw("\x1b[?2026l")
            self.flush()

    def give_back(self) -> None:
        """Switch all modes off at the end of the prompt, even in the middle of an update."""
        self.release()
        if self._has_modes:
            self.disable_bracketed_paste()
            self.flush()

    def flush(self) -> None:
        """Send the buffered output, unless it is being held, or the terminal is gone: then a signal or the end of
        the input ends the session."""
        if self.holding or not self._buffer:
            return
        data = "".join(self._buffer).encode(self.encoding() or "utf-8", "replace")
        self._buffer = []
        try:
            self.stdout.flush()
            write_to_terminal(self.fileno(), data, self.ended_by)
        except OSError as error:
            if error.errno != errno.EIO:
                raise

    def erase_down(self) -> None:
        """Erase below the cursor, which is at the beginning of a row. From the very first cell some terminals
        (tmux) would treat this as clearing the screen, and save the cleared text in their scrollback."""
        self.write_raw(" \x1b[J\b")

    def enable_bracketed_paste(self) -> None:
        """Switch all modes on when the prompt takes the terminal, unless they are on already."""
        if not self._has_modes:
            self._has_modes = True
            super().enable_bracketed_paste()
            self.write_raw(MODES_ON)

    def disable_bracketed_paste(self) -> None:
        """Switch all modes off when the terminal goes to an editor or a shell; not during an update, because a
        paste must remain a paste."""
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
    """Keys from a terminal. Input that arrives too fast for typing is read in one go and, if it has several lines,
    is a paste, bracketed or not."""

    def __init__(
        self, stdin: TextIO, ahead: TypeAhead | None = None, is_asking: Callable[[], bool] = lambda: False
    ) -> None:
        """`ahead` contains the keys typed so far. While `is_asking`, a short text of several lines is a paste too:
        its second line must not answer what the first one has brought up."""
        super().__init__(stdin)
        self._is_asking = is_asking
        ANSI_SEQUENCES.update(_SEQUENCES)
        self._in_paste = False
        self._read_at = 0.0
        self._ahead = ahead or TypeAhead()
        self._early = ""
        """Unread keys from before the program took the terminal."""

    @property
    def has_early(self) -> bool:
        """True if keys from before the program took the terminal are unread."""
        return bool(self._early)

    def raw_mode(self) -> AbstractContextManager[None]:
        """Take the terminal; earlier keys are kept apart from later ones."""
        mode = super().raw_mode()
        self._ahead.acquire()
        self._early = self._ahead.hand_to_editor()
        return mode

    @contextmanager
    def attach(self, input_ready_callback: Callable[[], None]) -> Iterator[None]:
        """Read keys in the running loop; waiting keys are read at once."""
        with super().attach(input_ready_callback):
            if self._early:
                asyncio.get_running_loop().call_soon(input_ready_callback)
            yield

    def suspend(self) -> None:
        """Restore the original terminal modes while the program is stopped."""
        self._ahead.suspend()

    def resume(self) -> None:
        """Take the terminal back from another program."""
        self._ahead.resume()

    @property
    def is_settling(self) -> bool:
        """True if the terminal was taken back a moment ago, so that a signal arriving now is already handled."""
        return time.monotonic() - self._ahead.set_again_at < _SETTLED_S

    def read_keys(self) -> list[KeyPress]:
        """Return the keys that have arrived."""
        if self._early:
            early, self._early = self._early, ""
            self._parse(early)
        text = _NO_TEXT.sub("\ufffd", self._read_available())
        is_late_escape = text == "\x1b" and time.monotonic() - self._read_at > _LOST_S
        if self._in_paste and (text == "\x03" or is_late_escape):  # the user leaves a paste that has no end
            text = PASTE_END + text
        self._read_at = time.monotonic()
        if not self._in_paste and _is_burst(text, self._is_asking()):
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

    def _read_available(self) -> str:
        """Return the available input; after a large piece also what follows at once, so that it is examined as a
        whole."""
        pieces = [self.stdin_reader.read(1 << 16)]
        end = time.monotonic() + _GATHER_S
        while len(pieces[-1]) >= _GATHER_CHARS and time.monotonic() < end:
            if not select.select([self.fileno()], [], [], _NEXT_PIECE_S)[0]:
                break
            pieces.append(self.stdin_reader.read(1 << 16))
        return "".join(pieces)


def _is_burst(text: str, is_asking: bool) -> bool:
    """Return True if a text without control sequences is a paste: several lines at once, or more than anyone
    types. A single line followed by Enter, as other programs send it, counts as typed."""
    if is_asking and _LINES.match(text):
        return True
    if "\x1b" in text or (len(text) < _BURST_CHARS and not _TWO_LINES.match(text)):
        return False
    several = any(mark in text.rstrip("\r\n") for mark in "\r\n")
    return several or len(text) > _GATHER_CHARS


class JobControl:
    """Job control of the program; `has_editor` returns True if another program has the terminal right now."""

    def __init__(self, app: Application[Any], keyboard: Keyboard, has_editor: Callable[[], bool]) -> None:
        self._app, self._keyboard, self._has_editor = app, keyboard, has_editor
        self._stopping = False
        """True after the program has stopped itself, so that the signals that follow are expected."""

    def answering(self) -> AbstractContextManager[None]:
        """Handle the signals of job control."""
        return signal_handlers({signal.SIGTSTP: self.stop, signal.SIGCONT: self._continued})

    def stop(self) -> None:
        """Restore the terminal and stop, as Ctrl-Z does for any program, until a shell's `fg`."""
        if self._stopping or self._keyboard.is_settling or not self._app.is_running:
            return
        if signal.getsignal(signal.SIGTSTP) == signal.SIG_IGN:
            return
        self._stopping = True
        if self._has_editor():  # the editor has the terminal and has stopped as well
            self._stop()
        else:
            run_in_terminal(self._stop)

    def _stop(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGTSTP)  # only the default handler stops the process
        if not self._has_editor():
            self._keyboard.suspend()
        os.kill(0, signal.SIGTSTP)
        loop.add_signal_handler(signal.SIGTSTP, self.stop)
        loop.call_later(_SETTLED_S, self._end_stop)

    def _end_stop(self) -> None:
        self._stopping = False

    def _continued(self) -> None:
        """Handle a continue after another process has stopped the program: set the modes again, because another
        program has used the terminal, and keep the text on the screen."""
        if self._stopping or self._keyboard.is_settling or self._has_editor() or not self._app.is_running:
            return
        self._keyboard.resume()
        self._app.renderer.reset()
        self._app.invalidate()


_SAVE, _RESTORE = "\x1b[22;2t", "\x1b[23;2t"
"""XTWINOPS: push the title onto the terminal's stack, or pop it; terminals without a stack ignore them."""
_TITLE_CHARS = 80


class WindowTitle:
    """The window title while the REPL runs; `write` sends a sequence to the terminal."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._shown = ""

    def show(self, cwd: str, title: str) -> None:
        """Show a folder and the title of a session, if they have changed."""
        folder = os.path.basename(cwd) or cwd
        text = lines.one_line(" · ".join(filter(None, ("agent", folder, title))), _TITLE_CHARS)
        if text != self._shown:
            self._write(f"{'' if self._shown else _SAVE}\x1b]2;{text}\a")
            self._shown = text

    def restore(self) -> str:
        """Return the sequence that restores the original title; empty if it was not changed."""
        return _RESTORE if self._shown else ""
