"""Breakdown of the time of a session's turns: each instant counts once, even if several things run in parallel."""

from collections.abc import Iterable, Iterator

import msgspec

from agent_cli.session.timing import Share

from . import conventions
from .span import Span, SpanKind

_ORDER: tuple[Share, ...] = ("streaming", "first_token", "tool", "hook", "waiting", "retry", "overhead")
"""Precedence of simultaneous activities: work before waiting. Two parallel tools take the time of the longer
one."""
_OF_KIND: dict[SpanKind, Share] = {
    "model": "streaming", "tool": "tool", "hook": "hook", "approval": "waiting", "question": "waiting",
    "retry": "retry", "compaction": "overhead", "agent": "overhead", "queue": "overhead",
}  # fmt: skip
_OVERHEAD = _ORDER.index("overhead")


class _Interval(msgspec.Struct, frozen=True):
    """A span, or a part of one, for counting."""

    start: float
    end: float
    rank: int
    span_id: str
    parent_id: str
    is_background: bool


def time_shares(spans: Iterable[Span]) -> dict[str, float]:
    """Return the seconds of all turns among some spans by category; they add up to the duration of the turns. A
    turn is an `agent` span whose parent is not among them; spans outside of turns, such as a compaction between
    them, do not count. A sub-agent's time is that of its own model calls and tools; a background sub-agent counts
    only while nothing else happens."""
    known = {span.span_id: span for span in spans}
    children: dict[str, list[Span]] = {}
    for span in known.values():
        children.setdefault(span.parent_id, []).append(span)
    seconds = [0.0] * len(_ORDER)
    wall_s = 0.0
    for span in known.values():
        if span.kind == "agent" and span.parent_id not in known:
            wall_s += span.duration_s
            for rank, length_s in _swept(list(_intervals(span, children)), span):
                seconds[rank] += length_s
    seconds[_OVERHEAD] = max(0.0, wall_s - sum(seconds[:_OVERHEAD]))
    return dict(zip(_ORDER, seconds, strict=True))


def _intervals(turn: Span, children: dict[str, list[Span]]) -> Iterator[_Interval]:
    """Yield the spans inside a turn, clipped to it."""
    waiting = [(each, False) for each in children.get(turn.span_id, ())]
    while waiting:
        span, is_background = waiting.pop()
        is_background = is_background or span.attributes.get(conventions.BACKGROUND) is True
        below = children.get(span.span_id, ())
        waiting += [(each, is_background) for each in below]
        for start, end, share in _parts(span, below):
            start, end = max(start, turn.start), min(end, turn.end)
            if end > start:
                rank = _ORDER.index(share)
                yield _Interval(start, end, rank, span.span_id, span.parent_id, is_background)


def _parts(span: Span, children: Iterable[Span]) -> Iterator[tuple[float, float, Share]]:
    """Yield a span; a model call in two parts, before and after the last attempt's first piece."""
    first_s = span.attributes.get(conventions.FIRST_CHUNK_S)
    if span.kind != "model":
        yield span.start, span.end, _OF_KIND.get(span.kind, "overhead")
        return
    asked = max([each.end for each in children if each.kind == "retry"], default=span.start)
    begun = max(span.start, min(span.end, asked + first_s)) if isinstance(first_s, int | float) else span.end
    yield span.start, begun, "first_token"
    yield begun, span.end, "streaming"


def _swept(intervals: list[_Interval], turn: Span) -> Iterator[tuple[int, float]]:
    """Yield pieces of a turn with the rank of their activity: of the innermost spans the one with the highest
    precedence; background spans come last."""
    moments = sorted(
        [(each.start, 1, each) for each in intervals] + [(each.end, 0, each) for each in intervals],
        key=lambda moment: moment[:2],
    )
    active: dict[str, _Interval] = {}
    inside: dict[str, int] = {}
    """Number of active direct children of each span."""
    innermost: dict[bool, list[int]] = {False: [0] * len(_ORDER), True: [0] * len(_ORDER)}
    """Number of active spans without active children by rank, separately for background spans."""
    before = turn.start
    for time, begins, interval in moments:
        if time > before:
            yield _rank(innermost), time - before
            before = time
        step = 1 if begins else -1
        around = inside.get(interval.parent_id, 0)
        inside[interval.parent_id] = around + step
        outer = active.get(interval.parent_id)
        if outer is not None and 0 in (around, around + step):
            innermost[outer.is_background][outer.rank] -= step
        if not inside.get(interval.span_id):
            innermost[interval.is_background][interval.rank] += step
        if begins:
            active[interval.span_id] = interval
        else:
            del active[interval.span_id]


def _rank(innermost: dict[bool, list[int]]) -> int:
    best, behind = (
        next((rank for rank, number in enumerate(innermost[is_background]) if number), _OVERHEAD)
        for is_background in (False, True)
    )
    return best if best < _OVERHEAD else behind
