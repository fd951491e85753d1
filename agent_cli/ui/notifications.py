"""Notifications for a user who looks elsewhere: the bell, a terminal notification, or a user command.

Separate from the REPL, which decides what is worth a notification. There is none shortly after a key press in a
window that has the focus.
"""

import os
import shlex
import time
from collections.abc import Callable, Mapping

from agent_cli.config.schema import Ui

from .text import lines

_AWAY_S = 10.0
"""After this many seconds without a key press the user may look elsewhere; a turn this long is worth a
notification."""
_CHARS = 120


class Notifications:
    """Tracks the user's attention. `write` sends a sequence to the terminal, `start` runs a command line."""

    def __init__(
        self,
        settings: Ui,
        write: Callable[[str], None],
        start: Callable[[str], None],
        tell: Callable[[str], None] = lambda text: None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`tell` gets the outcome of a turn that ended while the user was away."""
        self._settings, self._write, self._start, self._tell = settings, write, start, tell
        self._in_tmux = "TMUX" in environ
        self._focused: bool | None = None
        """None if the terminal has never reported the focus."""
        self._key_at = time.monotonic()

    def key(self) -> None:
        """Record a key press."""
        self._key_at = time.monotonic()

    def focus(self, has: bool) -> None:
        """Record the focus that the terminal reports for its window."""
        self._focused = has

    def answer_needed(self, text: str) -> None:
        """Notify the user of a question."""
        if not self._looks():
            self._call(text)

    def turn_ended(self, text: str, took_s: float) -> None:
        """Notify the user of the end of a turn that took `took_s` seconds."""
        if self._focused is False or (took_s > _AWAY_S and not self._looks()):
            self._call(text)
            self._tell(text)

    def _looks(self) -> bool:
        return self._focused is True and time.monotonic() - self._key_at < _AWAY_S

    def _call(self, text: str) -> None:
        text = lines.one_line(text, _CHARS)
        match self._settings.notify:
            case "bell":
                self._write("\a")
            case "osc9":
                self._write(self._through(f"\x1b]9;agent: {text}\a"))
            case "osc777":
                self._write(self._through(f"\x1b]777;notify;agent;{text.replace(';', ',')}\a"))
            case "off":
                pass
        if self._settings.notify_command and self._settings.notify != "off":
            self._start(f"{self._settings.notify_command} {shlex.quote(text)}")

    def _through(self, sequence: str) -> str:
        """Wrap a sequence so that tmux passes it through to the outer terminal."""
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\" if self._in_tmux else sequence
