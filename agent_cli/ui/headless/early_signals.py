"""Signals that come before a run answers them itself: its result has to tell of them too.

While the program loads, a signal waits: an exception in the middle of loading can crash an extension module.
"""

import _signal  # type: ignore[import-not-found]  # `signal` is slow to load
from typing import Any


class StoppedEarly(BaseException):
    """The run was stopped before its session was open.

    Attributes:
        reason: its stop reason.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class EarlySignals:
    """The signals that end a run."""

    def __init__(self) -> None:
        self._reason = ""
        self._raises = False

    def hold(self) -> None:
        """Let signals wait from now on; those that are ignored stay so."""
        for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
            if _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, self._take)

    def release(self) -> None:
        """Let the first signal raise `StoppedEarly`, which may have come already; later ones change nothing."""
        self._raises = True
        if self._reason:
            self._raise()

    def _take(self, number: int, frame: Any) -> None:
        self._reason = self._reason or ("interrupted" if number == _signal.SIGINT else "terminated")
        if self._raises:
            self._raise()

    def _raise(self) -> None:
        self._raises = False
        raise StoppedEarly(self._reason)


EARLY = EarlySignals()
