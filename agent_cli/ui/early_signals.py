"""Signals that come before the event loop answers them: a run tells of them in its result, and the REPL ends with
their exit codes.

While the program loads, a signal waits: an exception in the middle of loading can crash an extension module.
"""

import _signal  # type: ignore[import-not-found]  # `signal` is slow to load
from typing import Any


class StoppedEarly(BaseException):
    """The run was stopped before its session was open.

    Attributes:
        reason: its stop reason.
        signal: the signal that did; 0 for none.
    """

    def __init__(self, reason: str, number: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.signal = number


class EarlySignals:
    """The signals that end a program."""

    def __init__(self) -> None:
        self.number = 0
        """The first one that came; 0 for none."""
        self._raises = False

    def hold(self) -> None:
        """Let signals wait from now on; those that are ignored stay so."""
        for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
            if _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, self._take)

    def release(self) -> None:
        """Let the first signal raise `StoppedEarly`, which may have come already; later ones change nothing."""
        self._raises = True
        if self.number:
            self._raise()

    def drop(self) -> None:
        """Let signals mean again what they always do."""
        for number, action in (
            (_signal.SIGINT, _signal.default_int_handler),
            (_signal.SIGTERM, _signal.SIG_DFL),
            (_signal.SIGHUP, _signal.SIG_DFL),
        ):
            if _signal.getsignal(number) == self._take:
                _signal.signal(number, action)

    def _take(self, number: int, frame: Any) -> None:
        self.number = self.number or number
        if self._raises:
            self._raise()

    def _raise(self) -> None:
        self._raises = False
        raise StoppedEarly("interrupted" if self.number == _signal.SIGINT else "terminated", self.number)


EARLY = EarlySignals()
