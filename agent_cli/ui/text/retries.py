"""Word the retries of a model call: what failed, when the next attempt begins, and how many it took. A screen
shows `line` and replaces it; where lines only add up, `first` and `ended` are enough."""

import time

from agent_cli.protocol.events import ErrorInfo, RetryScheduled

from . import lines

_DAY_S = 86_400
_FAR_S = 1000 * _DAY_S


class RetryProgress:
    """The retries of one model call so far."""

    def __init__(self) -> None:
        self.count = 0
        self._latest: RetryScheduled | None = None
        self._until = 0.0

    def scheduled(self, event: RetryScheduled, now: float) -> None:
        """Take in a further retry; `now` is a monotonic time."""
        self.count += 1
        self._latest, self._until = event, now + event.delay_s

    def line(self, now: float) -> str:
        """Return what failed and when the next attempt begins; empty before the first retry."""
        if self._latest is None:
            return ""
        left_s = self._until - now
        when = f"in {lines.seconds(left_s)}" if not left_s <= 0 else "now"
        return f"{brief(self._latest.error)}. {self._what(self._latest, when)}"

    def first(self) -> str:
        """Return the line of this retry where lines only add up, with the provider's words; empty for one that
        adds nothing."""
        latest = self._latest
        if latest is None or not (self.count == 1 or latest.parked or latest.discarded_chars):
            return ""
        discarded = " Partial answer discarded." if latest.discarded_chars else ""
        why = _sentence(lines.one_line(latest.error.message) or lines.one_line(latest.error.kind, 80))
        return f"{why}. {self._what(latest, f'in {lines.seconds(latest.delay_s)}')}.{discarded}"

    def discarded(self) -> str:
        """Return what the screen says for good of an answer that broke off."""
        return f"{brief(self._latest.error)}. Partial answer discarded." if self._latest else ""

    def ended(self) -> str:
        """Return that an attempt got through, and how many retries it took."""
        why = f": {brief(self._latest.error)}" if self._latest else ""
        return f"Recovered after {lines.number(self.count, 'retry', 'retries')}{why}."

    def _what(self, event: RetryScheduled, when: str) -> str:
        if event.parked:
            return f"Retry {when}{_clock(event.delay_s)}; Esc stops"
        return f"Retry {self.count} {when}"


def brief(error: ErrorInfo) -> str:
    """Return what failed in a few words, without the provider's own: `Rate limited by openai (429)`."""
    said = lines.one_line(error.message) or lines.one_line(error.kind, 80)
    return _sentence(said.partition(": ")[0])


def _sentence(text: str) -> str:
    what = text.replace("(HTTP ", "(", 1).rstrip(".")
    return what[:1].upper() + what[1:]


def _clock(delay_s: float) -> str:
    """When that is, as a clock says it; nothing for a time that no clock knows."""
    if not 0 <= delay_s < _FAR_S:
        return ""
    form = "%H:%M" if delay_s < _DAY_S else "%Y-%m-%d %H:%M"
    return time.strftime(f", at {form}", time.localtime(time.time() + delay_s))
