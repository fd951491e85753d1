"""The timeline of attempts, in as few rows as there were slots. Pure."""

from collections.abc import Iterable

import msgspec

from ..attempt import AttemptResult, Outcome


class Span(msgspec.Struct, frozen=True):
    """The time span of an attempt, in seconds since the start of the run."""

    task: str
    attempt: int
    outcome: Outcome
    row: int
    start: float
    end: float
    setup: float
    """Seconds spent on setup, at the beginning of the span."""
    rate_limit: float
    """Seconds spent waiting for the provider; their position within the span is not recorded."""


def spans(attempts: Iterable[AttemptResult], first: float) -> tuple[Span, ...]:
    """Return the attempts by their start, each in the first row that is free then."""
    free: list[float] = []
    placed = []
    begun = [each for each in attempts if each.started]
    for each in sorted(begun, key=lambda each: (each.started, each.finished, each.id, each.attempt)):
        start, end = each.started - first, max(each.started, each.finished) - first
        row = next((at for at, until in enumerate(free) if until <= start), len(free))
        free[row : row + 1] = [end]
        waited = each.waited_s
        placed.append(Span(each.id, each.attempt, each.outcome, row, start, end, waited.setup, waited.rate_limit))
    return tuple(placed)
