"""Terminal modes that the program sets and resets, and the keyboard before the line editor reads it. Imports
neither a line editor nor an event loop."""

import contextlib
import fcntl
import os
import sys
import termios
import time
from _signal import SIGTSTP  # type: ignore[import-not-found]  # `signal` is slow to load
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent_cli.protocol.lazy_regex import lazy_regex

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

MODES_ON = "\x1b[?1004h\x1b[>4;1m\x1b[m"
"""Focus reports, and modifyOtherKeys of xterm, which distinguishes Shift-Enter from Enter. The final reset is for
terminals that take the latter for a colour."""
MODES_OFF = "\x1b[?1004l\x1b[>4m\x1b[m"
RESET = f"\x1b[?2026l\x1b[?2004l{MODES_OFF}\x1b[?7h\x1b[?25h"
"""Resets every mode that the screen uses: synchronized updates, bracketed paste, `MODES_ON`, no wrapping, hidden
cursor."""
CLEAR_BELOW = "\x1b[J"
"""Erases the rows below the input line."""
PASTE_BEGIN, PASTE_END = "\x1b[200~", "\x1b[201~"

_BRACKETS_ON, _BRACKETS_OFF = b"\x1b[?2004h", b"\x1b[?2004l"
_LOCAL, _INPUT, _CHARACTERS = 3, 0, 6
"""Indices into the result of `tcgetattr`."""
_CTRL_C, _CTRL_D, _CTRL_Z = b"\x03", b"\x04", b"\x1a"
_TWICE_S = 1.0
_REST_S = 0.05
"""Seconds to wait for the rest of an incomplete character."""
_POLL_S = 0.001
_TYPED_LINES = 3
"""More lines than this before the line editor reads count as a paste."""
_OTHER_KEYS = lazy_regex(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_STOP_KEYS = lazy_regex(rb"([\x03\x04\x1a])")


class TypeAhead:
    """The keyboard from the first paint until the line editor reads it. Keys are neither echoed nor interpreted by
    the terminal: all are kept in order. Only keys that leave or stop take effect at once."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None
        """The original modes of the terminal, while others are set."""
        self._typed = b""
        self._interrupted_at = float("-inf")
        self._has_hint = False
        """True if the last Ctrl-C was at an empty line, so that it only showed a hint."""
        self.set_again_at = float("-inf")
        """Monotonic time when the modes were last set again."""
        self._loop: AbstractEventLoop | None = None
        """The loop that watches the keyboard."""
        self._has_reader = False
        """True if the line editor reads now."""

    def acquire(self) -> None:
        """Take the terminal; do nothing if it is taken already or there is none. Input that was typed before is
        kept first."""
        if self._before is None and self._set_raw():
            cooked = self._waiting()  # the terminal has turned Enter into a line feed, and Ctrl-D into a zero byte
            self._typed += cooked.replace(b"\n", b"\r").replace(b"\0", _CTRL_D)

    def resume(self) -> None:
        """Set the modes again after another program has changed them."""
        if self._before is not None:
            self._set_raw()
        self.set_again_at = time.monotonic()

    def suspend(self) -> None:
        """Restore the original modes until `resume`."""
        if self._before is not None:
            _write(_BRACKETS_OFF)
            with contextlib.suppress(OSError, ValueError, termios.error):
                termios.tcsetattr(_stdin(), termios.TCSANOW, self._before)

    def give_back(self) -> None:
        """Restore the terminal. Keys typed for the line editor before it was loaded are consumed: a shell would
        run them."""
        self.unwatch()
        if self._before is not None and not self._has_reader:
            self._typed += self._waiting()
        self.suspend()
        self._before = None

    def unread(self) -> str:
        """Return the typed text that was never read, after `give_back`."""
        text = self._typed.decode("utf-8", "replace").replace(PASTE_BEGIN, "").replace(PASTE_END, "")
        return _OTHER_KEYS.sub("", text.replace("\r", "\n")).strip()

    def watch(self, loop: "AbstractEventLoop", leave: Callable[[], None], hint: Callable[[], None]) -> None:
        """Watch in a loop for keys that leave (Ctrl-D, or Ctrl-C twice, at an empty line) or stop the program,
        until `hand_to_editor`; `hint` shows that another Ctrl-C leaves."""
        self._has_reader = False
        if self._before is None:
            return
        self._loop = loop

        def read() -> None:
            data = self._waiting()
            if not data:
                self.unwatch()  # the terminal is gone; the line editor notices it later
            for keys in _STOP_KEYS.split(data):
                self._key(keys, leave, hint)

        with contextlib.suppress(OSError):
            loop.add_reader(_stdin(), read)

    def unwatch(self) -> None:
        """Stop watching for keys."""
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(_stdin())

    def hand_to_editor(self) -> str:
        """Return all keys so far for the line editor, which reads the later ones. Many lines without any other key
        are a paste, because a terminal may not support bracketed paste."""
        self.unwatch()
        self._has_reader = True
        typed, self._typed = self._typed, b""
        if self._before is not None:
            typed += self._waiting()
            end = time.monotonic() + _REST_S
            while _is_cut(typed) and time.monotonic() < end:
                time.sleep(_POLL_S)
                typed += self._waiting()
        if self._has_hint and time.monotonic() - self._interrupted_at <= _TWICE_S:
            typed = _CTRL_C + typed  # the hint is shown for the rest of its time
        text = typed.decode("utf-8", "replace")
        if text.count("\r") > _TYPED_LINES and not _OTHER_KEYS.search(text):
            return f"{PASTE_BEGIN}{text}{PASTE_END}"
        return text

    def _key(self, keys: bytes, leave: Callable[[], None], hint: Callable[[], None]) -> None:
        """Handle keys. After a whole line, which will be sent, Ctrl-C is left to the line editor too."""
        has_sent = bool(set(self._typed) & set(b"\r\n"))
        if keys == _CTRL_Z:
            os.kill(0, SIGTSTP)
        elif keys == _CTRL_C and time.monotonic() - self._interrupted_at <= _TWICE_S:
            leave()
        elif keys == _CTRL_C and self._typed and not has_sent:
            self._typed = b""
        elif keys == _CTRL_C:
            self._interrupted_at, self._has_hint = time.monotonic(), not has_sent
            self._typed += _CTRL_C if has_sent else b""
            hint()
        elif keys == _CTRL_D and not self._typed:
            leave()
        else:
            self._typed += keys

    def _set_raw(self) -> bool:
        """Set the terminal to deliver single keys without interpreting them; return True on success."""
        try:
            modes = termios.tcgetattr(_stdin())
            before = [*modes[:_CHARACTERS], [*modes[_CHARACTERS]]]
            modes[_LOCAL] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
            modes[_INPUT] &= ~(termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR)
            modes[_CHARACTERS][termios.VMIN], modes[_CHARACTERS][termios.VTIME] = 1, 0
            termios.tcsetattr(_stdin(), termios.TCSANOW, modes)
        except (OSError, ValueError, termios.error):
            return False
        self._before = self._before or before
        _write(_BRACKETS_ON)
        return True

    def _waiting(self) -> bytes:
        """Return the available input."""
        data = b""
        with contextlib.suppress(OSError, ValueError):
            while size := int.from_bytes(fcntl.ioctl(_stdin(), termios.FIONREAD, bytes(4)), sys.byteorder):
                data += os.read(_stdin(), size)
        return data


def _stdin() -> int:
    return sys.stdin.fileno()


def _write(data: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):  # the terminal is gone; the screen notices it later
        os.write(sys.stdout.fileno(), data)


def _is_cut(data: bytes) -> bool:
    """Return True if the last UTF-8 character is incomplete."""
    for back, byte in enumerate(reversed(data[-4:]), 1):
        if byte >= 0xC0:
            return back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4)
        if byte < 0x80:
            return False
    return False
