"""Wording of the retries of a model call: the failure, the time of the next attempt, and the number of attempts. A
screen shows `line` and replaces it; append-only output uses `first` and `ended`."""

import time

from agent_cli.protocol.events import ErrorInfo, RetryScheduled

from . import lines

_DAY_S = 86_400
_FAR_S = 1000 * _DAY_S


class RetryProgress:
    """The retries of a model call so far."""

    def __init__(self) -> None:
        self.count = 0
        self.answers = False
        """True while an attempt sends an answer after one that broke off, which says nothing about its end yet."""
        self._latest: RetryScheduled | None = None
        self._until = 0.0

    def scheduled(self, event: RetryScheduled, now: float) -> None:
        """Record a further retry; `now` is a monotonic time."""
        self.count += 1
        self.answers = False
        self._latest, self._until = event, now + event.delay_s

    def line(self, now: float) -> str:
        """Return the failure and the time of the next attempt; empty before the first retry and while one
        answers."""
        if self._latest is None or self.answers:
            return ""
        left_s = self._until - now
        when = f"in {lines.seconds(left_s)}" if not left_s <= 0 else "now"
        return f"{brief(self._latest.error)}. {self._what(self._latest, when)}"

    def first(self) -> str:
        """Return the line of this retry for append-only output, with the provider's message; empty if it adds
        nothing."""
        latest = self._latest
        if latest is None or not (self.count == 1 or latest.parked or latest.discarded_chars):
            return ""
        discarded = " Partial answer discarded." if latest.discarded_chars else ""
        why = _sentence(lines.one_line(latest.error.message) or lines.one_line(latest.error.kind, 80))
        return f"{why}. {self._what(latest, f'in {lines.seconds(latest.delay_s)}')}.{discarded}"

    @property
    def broke_off(self) -> bool:
        """True if the attempt before had sent a part of an answer."""
        return self._latest is not None and bool(self._latest.discarded_chars)

    def discarded(self) -> str:
        """Return the permanent line about a partial answer that was discarded."""
        return f"{brief(self._latest.error)}. Partial answer discarded." if self._latest else ""

    def ended(self) -> str:
        """Return the line that an attempt succeeded, with the number of retries."""
        why = f": {brief(self._latest.error)}" if self._latest else ""
        return f"Recovered after {lines.number(self.count, 'retry', 'retries')}{why}."

    def _what(self, event: RetryScheduled, when: str) -> str:
        if event.parked:
            return f"Retry {when}{_clock(event.delay_s)}; Esc stops"
        return f"Retry {self.count} {when}"


def brief(error: ErrorInfo) -> str:
    """Return a short form of an error, without the provider's message: `Rate limited by openai (429)`."""
    said = lines.one_line(error.message) or lines.one_line(error.kind, 80)
    return _sentence(said.partition(": ")[0])


def _sentence(text: str) -> str:
    what = text.replace("(HTTP ", "(", 1).rstrip(".")
    return what[:1].upper() + what[1:]


def _clock(delay_s: float) -> str:
    """Return the clock time of the next attempt; empty if it is too far in the future."""
    if not 0 <= delay_s < _FAR_S:
        return ""
    form = "%H:%M" if delay_s < _DAY_S else "%Y-%m-%d %H:%M"
    return time.strftime(f", at {form}", time.localtime(time.time() + delay_s))
