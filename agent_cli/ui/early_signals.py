"""Signals that arrive before the event loop handles them: a run reports them in its result, and the REPL exits
with their exit codes.

While the program loads, signals are deferred: an exception during loading can crash an extension module.
"""

import _signal  # type: ignore[import-not-found]  # `signal` is slow to load
from typing import Any


class StoppedEarly(BaseException):
    """The run was stopped before its session was open.

    Attributes:
        reason: the stop reason.
        signal: the signal that stopped the run; 0 for none.
    """

    def __init__(self, reason: str, number: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.signal = number


class EarlySignals:
    """Deferred handling of the signals that end a program."""

    def __init__(self) -> None:
        self.number = 0
        """The first signal received; 0 for none."""
        self._raises = False

    def hold(self) -> None:
        """Defer signals from now on; ignored signals stay ignored."""
        for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
            if _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, self._take)

    def release(self) -> None:
        """Raise `StoppedEarly` on the first signal, or now if one has already arrived; later signals do
        nothing."""
        self._raises = True
        if self.number:
            self._raise()

    def drop(self) -> None:
        """Restore the default handlers."""
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
