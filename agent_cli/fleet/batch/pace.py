"""Number of attempts that may run for a provider at a time. A rate limit is not counted as a failure: nothing
starts until it is over; then fewer attempts run at a time, and gradually more while it does not recur."""

import time
from collections.abc import Callable

_CUT = 0.7
_EPISODE_S = 15.0
_STEP_S = 15.0


class Pace:
    """The attempts of a provider. Starts with the number requested by the user, and never exceeds it."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._target = float(most)
        self._episode_ends = self._grows_at = self.paused_until = float("-inf")
        self.waited_s = 0.0
        """Total seconds for which starts were paused."""

    @property
    def target(self) -> int:
        """Number of attempts that may run now."""
        now = self._clock()
        while self._target < self._most and now >= self._grows_at:
            self._target += 1
            self._grows_at += _STEP_S
        return max(1, min(self._most, int(self._target)))

    @property
    def pause_s(self) -> float:
        """Seconds until new attempts may start."""
        return max(0.0, self.paused_until - self._clock())

    def on_rate_limit(self, delay_s: float) -> None:
        """Record a rate limit that ends in `delay_s`. Several in a row count once."""
        now = self._clock()
        until = now + delay_s
        if until > self.paused_until:
            self.waited_s += until - max(now, self.paused_until)
            self.paused_until = until
        if now >= self._episode_ends:
            self._target = max(1.0, self.target * _CUT)
        self._episode_ends = max(self._episode_ends, now + _EPISODE_S, until)
        self._grows_at = self._episode_ends + _STEP_S

    def on_server_error(self) -> None:
        """Record an error of the server or the network: delay the next increase."""
        self._grows_at = max(self._grows_at, self._clock() + _STEP_S)
