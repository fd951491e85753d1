"""Being stopped and going on: Ctrl-Z and a shell's `fg`, and what others do with SIGSTOP and SIGCONT."""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

from prompt_toolkit.application import Application, run_in_terminal

from .terminal import Keyboard

_SETTLED_S = 0.5
"""How long after `fg` the signals that came with it may still arrive."""


class JobControl:
    """The part a program has in it; `has_editor` says whether another one has the terminal right now."""

    def __init__(self, app: Application[Any], keyboard: Keyboard, has_editor: Callable[[], bool]) -> None:
        self._app, self._keyboard, self._has_editor = app, keyboard, has_editor
        self._stopping = False
        """Whether the program has stopped itself, so that what comes next is no surprise."""

    def begin(self) -> None:
        """From now on signals are answered."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTSTP, self.stop)
        loop.add_signal_handler(signal.SIGCONT, self._continued)

    def end(self) -> None:
        """Signals mean what they always do."""
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGTSTP)
        loop.remove_signal_handler(signal.SIGCONT)

    def stop(self) -> None:
        """Give the terminal back and stop, as Ctrl-Z does with any program, until a shell's `fg`."""
        if self._stopping or not self._app.is_running:
            return
        self._stopping = True
        if self._has_editor():  # it has the terminal, and has stopped as well
            self._stop()
        else:
            run_in_terminal(self._stop)

    def _stop(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGTSTP)  # the system's own meaning again: only then it stops
        os.kill(0, signal.SIGTSTP)
        loop.add_signal_handler(signal.SIGTSTP, self.stop)
        loop.call_later(_SETTLED_S, self._settled)

    def _settled(self) -> None:
        self._stopping = False

    def _continued(self) -> None:
        """Somebody else has stopped the program and lets it go on: the terminal is another's work by now, so its
        modes are set anew, and what stands there stays."""
        if self._stopping or self._has_editor() or not self._app.is_running:
            return
        self._keyboard.raw_mode().__enter__()
        self._app.renderer.reset()
        self._app.invalidate()
