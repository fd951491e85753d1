"""Cost and cache use of a session: pure sums and comparisons over `ModelCalled` records."""

from collections.abc import Iterable, Sequence

from agent_cli.protocol.messages import FINISHES
from agent_cli.protocol.records import REWRITES, AnyRecord, ModelCalled
from agent_cli.protocol.usage import CallKind, CostLine, Totals, Usage

_CAUSES: dict[CallKind, str] = {
    "main": "turns",
    "summary": "summaries",
    "limit": "closing words",
    "sampling": "MCP servers",
    "subagent": "sub-agents",
}
_NOTEWORTHY_TOKENS = 4_000
"""Below this size a prompt is cheap, cached or not."""
_CACHE_LIVES_S = 300
"""Seconds without a request after which most providers have evicted a cached prompt."""


def totals_of(calls: Iterable[ModelCalled]) -> Totals:
    """Return the totals of model calls."""
    sums = Totals()
    for call in calls:
        sums = sums.plus(call.usage, call.cost_usd, call.at_most_usd)
    return sums


class Costs:
    """Totals of model calls, overall and by cause and model."""

    def __init__(self) -> None:
        self.totals = Totals()
        self._sums: dict[tuple[str, str], Totals] = {}

    def add(self, call: ModelCalled) -> None:
        """Add a call. A call that ended in an error counts as a failed attempt."""
        self.totals = self.totals.plus(call.usage, call.cost_usd, call.at_most_usd)
        failed = call.outcome not in FINISHES
        key = ("failed attempts" if failed else _CAUSES[call.kind], call.model)
        self._sums[key] = self._sums.get(key, Totals()).plus(call.usage, call.cost_usd, call.at_most_usd)

    def lines(self) -> tuple[CostLine, ...]:
        """Return totals by cause and model, the most expensive first."""
        lines = [CostLine(cause, model, totals) for (cause, model), totals in self._sums.items()]
        return tuple(sorted(lines, key=lambda line: -(line.totals.cost_usd or 0.0)))


def cache_collapse(records: Sequence[AnyRecord]) -> str:
    """Return a sentence if the last step read far less from the provider's cache than the step before and nothing
    in the conversation explains it; empty otherwise."""
    calls = _last_steps(records)
    if len(calls) < 2 or calls[0].model != calls[1].model:
        return ""
    now, before = calls[0].usage, calls[1].usage
    if now is None or before is None or not is_cache_lost(before, now):
        return ""
    why = f"; {pause}" if (pause := long_pause(calls[1], calls[0])) else ""
    price = "Uncached tokens cost several times as much." if calls[0].cost_usd else "The rest is processed anew."
    return (
        f"The provider's prompt cache was missed: {now.cached_share or 0.0:.0%} of {now.sent} tokens were read "
        f"from it, {before.cached_share or 0.0:.0%} the time before{why}. {price}"
    )


def is_cache_lost(before: Usage, now: Usage) -> bool:
    """Return True if a step read far less from the provider's cache than the step before, in tokens and as a share
    of its prompt."""
    if before.cache_read is None or now.cache_read is None or before.cache_read < _NOTEWORTHY_TOKENS:
        return False
    return now.cache_read < before.cache_read / 2 and (now.cached_share or 0.0) < (before.cached_share or 0.0) / 2


def long_pause(before: ModelCalled, now: ModelCalled) -> str:
    """Return how much time passed between two steps if a cached prompt does not live that long, else empty."""
    pause_s = now.time - now.duration_s - before.time
    return f"{pause_s / 60:.0f} minutes had passed" if pause_s > _CACHE_LIVES_S else ""


def _last_steps(records: Sequence[AnyRecord]) -> list[ModelCalled]:
    """Return the two newest steps with known usage, newest first, with nothing between them that changes the
    beginning of the request."""
    calls: list[ModelCalled] = []
    for record in reversed(records):
        if isinstance(record, REWRITES):
            break
        if isinstance(record, ModelCalled) and record.kind == "main" and record.usage is not None:
            calls.append(record)
            if len(calls) == 2:
                break
    return calls
