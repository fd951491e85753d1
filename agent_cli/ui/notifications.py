"""Calling somebody who looks elsewhere: the bell, a notification of the terminal's, a command of the user's.

Apart from the REPL, which knows what is worth a call. Nobody is called who has just pressed a key in a window that
has the focus.
"""

import os
import shlex
import time
from collections.abc import Callable, Mapping

from agent_cli.config.schema import Ui

from .text import lines

_AWAY_S = 10.0
"""Who has pressed no key for so long may look elsewhere, and a turn that took so long is worth telling of."""
_CHARS = 120


class Notifications:
    """Knows whether somebody looks. `write` puts a sequence on the terminal, `start` runs a command line."""

    def __init__(
        self,
        settings: Ui,
        write: Callable[[str], None],
        start: Callable[[str], None],
        tell: Callable[[str], None] = lambda text: None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`tell` is given what a turn has come to that ended while nobody looked."""
        self._settings, self._write, self._start, self._tell = settings, write, start, tell
        self._in_tmux = "TMUX" in environ
        self._focused: bool | None = None
        """None: the terminal has never said."""
        self._key_at = time.monotonic()

    def key(self) -> None:
        """Somebody has pressed a key."""
        self._key_at = time.monotonic()

    def focus(self, has: bool) -> None:
        """The terminal says whether its window has the focus."""
        self._focused = has

    def answer_needed(self, text: str) -> None:
        """Something waits for an answer."""
        if not self._looks():
            self._call(text)

    def turn_ended(self, text: str, took_s: float) -> None:
        """Something has ended that began `took_s` seconds ago."""
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
