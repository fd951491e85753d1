"""What the session's records say of money and cache: pure sums and comparisons over `ModelCalled`."""

from collections.abc import Sequence
from typing import get_args

from ..protocol.messages import Finish
from ..protocol.records import AnyRecord, Folded, ModelCalled, Quarantined, Shortened, TurnsRedone, TurnsUndone
from ..protocol.usage import CallKind, CostLine, Totals

_CAUSES: dict[CallKind, str] = {"main": "turns", "summary": "summaries", "limit": "closing words"}
_FINISHES = frozenset(get_args(Finish))
_NOTEWORTHY_TOKENS = 4_000
"""A prompt shorter than this is cheap, cached or not."""
_CACHE_LIVES_S = 300
"""After this long without a request most providers have let go of a cached prompt."""


def cost_lines(records: Sequence[AnyRecord]) -> tuple[CostLine, ...]:
    """Totals by cause and model, dearest first. A call that ended in an error counts as a failed attempt."""
    sums: dict[tuple[str, str], Totals] = {}
    for record in records:
        if isinstance(record, ModelCalled):
            failed = record.outcome not in _FINISHES
            key = ("failed attempts" if failed else _CAUSES[record.kind], record.model)
            sums[key] = sums.get(key, Totals()).plus(record.usage, record.cost_usd)
    lines = [CostLine(cause, model, totals) for (cause, model), totals in sums.items()]
    return tuple(sorted(lines, key=lambda line: -(line.totals.cost_usd or 0.0)))


def cached_share(records: Sequence[AnyRecord]) -> float | None:
    """Share of the last step's request that was read from the cache; None when it is not reported."""
    for record in reversed(records):
        if isinstance(record, ModelCalled) and record.kind == "main" and record.usage is not None:
            return record.usage.cached_share
    return None


def cache_collapse(records: Sequence[AnyRecord]) -> str:
    """A sentence when the last step read far less from the provider's cache than the one before it, though
    nothing in the conversation explains it; empty otherwise."""
    calls = _last_steps(records)
    if len(calls) < 2 or calls[0].model != calls[1].model:
        return ""
    now, before = calls[0].usage, calls[1].usage
    if now is None or before is None or now.cache_read is None or before.cache_read is None:
        return ""
    share, earlier = now.cached_share or 0.0, before.cached_share or 0.0
    if before.cache_read < _NOTEWORTHY_TOKENS or now.cache_read >= before.cache_read / 2 or share >= earlier / 2:
        return ""
    pause_s = calls[0].time - calls[0].duration_s - calls[1].time
    why = f"; {pause_s / 60:.0f} minutes had passed" if pause_s > _CACHE_LIVES_S else ""
    sent = (now.input or 0) + now.cache_read + (now.cache_write or 0)
    return (
        f"The provider's prompt cache was missed: {share:.0%} of {sent} tokens were read from it, "
        f"{earlier:.0%} the time before{why}. Uncached tokens cost several times as much."
    )


def _last_steps(records: Sequence[AnyRecord]) -> list[ModelCalled]:
    """The newest two steps with known usage, newest first, with nothing between them that changes the
    beginning of the request."""
    calls: list[ModelCalled] = []
    for record in reversed(records):
        if isinstance(record, Folded | Shortened | TurnsUndone | TurnsRedone | Quarantined):
            break
        if isinstance(record, ModelCalled) and record.kind == "main" and record.usage is not None:
            calls.append(record)
            if len(calls) == 2:
                break
    return calls
