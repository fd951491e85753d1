"""The timing of turns, from a session file or from spans, as the front ends show it."""

import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.ui import services
from agent_cli.ui.text.lines import count, dollars

if TYPE_CHECKING:
    from agent_cli.telemetry.span import Span

_WAITS = frozenset({"approval", "question", "retry"})


def traced_turns(path: Path) -> tuple[services.TracedTurn, ...]:
    """Return the timing of each turn of a session file, including its sub-agents.

    Raises:
        StoreError: it cannot be read.
    """
    from agent_cli.session.timing import Timing
    from agent_cli.telemetry.recorded.spans import recorded, spans_of

    session = recorded(path)
    return turns_of(spans_of(session), Timing(session.records).prompted)


def turns_of(spans: "Sequence[Span]", prompted: Collection[int] | None = None) -> tuple[services.TracedTurn, ...]:
    """Return the timing of each turn, oldest first.

    Args:
        spans: of a session, or of a trace file. Spans of a turn whose own span is missing, because the program was
        killed, form a turn that has not ended.
        prompted: indices of the turns that a prompt began; None if unknown, which counts all.
    """
    turns: list[services.TracedTurn] = []
    number = 0
    by_id = {span.span_id: span for span in reversed(spans)}  # a damaged file may repeat an id: avoid cycles
    for at, (root, below, ended) in enumerate(_roots([*reversed(by_id.values())])):
        is_prompted = prompted is None or at in prompted
        number += is_prompted
        turns.append(_turn(root, below, number if is_prompted else 0, ended=ended))
    return tuple(turns)


def _turn(root: "Span", below: "dict[str, list[Span]]", number: int, *, ended: bool) -> services.TracedTurn:
    from agent_cli.telemetry.shares import time_shares

    return services.TracedTurn(
        number=number,
        began=time.strftime("%H:%M:%S", time.localtime(root.start)),
        duration_s=root.duration_s,
        shares=time_shares([root, *_inside(root, below)]),
        spans=tuple(_traced(root, below)),
        ended=ended,
        used=_used(root),
    )


def _roots(spans: "Sequence[Span]") -> "list[tuple[Span, dict[str, list[Span]], bool]]":
    """Return the root span of each turn, its spans by parent id, and True if the turn has ended."""
    from agent_cli.telemetry.conventions import STOP_REASON
    from agent_cli.telemetry.span import Span

    below: dict[str, list[Span]] = {}
    for span in spans:
        below.setdefault(span.parent_id, []).append(span)
    known = {span.span_id for span in spans}
    roots: list[tuple[Span, bool]] = []
    for parent_id, inside in below.items():
        if parent_id not in known:
            roots += [(span, STOP_REASON in span.attributes) for span in inside if span.kind == "agent"]
        if parent_id and parent_id not in known and (rest := [span for span in inside if span.kind != "agent"]):
            start, end = min(span.start for span in rest), max(span.end for span in rest)
            trace_id = rest[0].trace_id
            turn = Span(trace_id=trace_id, span_id=parent_id, kind="agent", name="", start=start, end=end)
            roots.append((turn, False))
    return [(root, below, ended) for root, ended in sorted(roots, key=lambda found: found[0].start)]


def _used(root: "Span") -> str:
    """Return the tokens and the cost of a turn as text; empty if unknown."""
    from agent_cli.telemetry import conventions as names

    sent, answered = root.attributes.get(names.INPUT_TOKENS), root.attributes.get(names.OUTPUT_TOKENS)
    cost, share = root.attributes.get(names.COST_USD), root.attributes.get(names.CACHED_SHARE)
    facts = []
    if isinstance(sent, int) and isinstance(answered, int):
        cached = f" ({share:.0%} cached)" if isinstance(share, float) else ""
        facts.append(f"{count(sent)} tokens in{cached}, {count(answered)} out")
    if isinstance(cost, int | float):
        facts.append(dollars(float(cost)))
    return ", ".join(facts)


def _inside(root: "Span", below: "dict[str, list[Span]]") -> "Iterator[Span]":
    waiting = [*below.get(root.span_id, ())]
    while waiting:
        span = waiting.pop()
        yield span
        waiting += below.get(span.span_id, ())


def _traced(root: "Span", below: "dict[str, list[Span]]") -> Iterator[services.TracedSpan]:
    """Yield the spans of a turn in order of their start, each after its parent."""
    from agent_cli.telemetry.conventions import FIRST_CHUNK_S

    def latest_first(span_id: str) -> "list[Span]":
        return sorted(below.get(span_id, ()), key=lambda span: -span.start)

    waiting = [(span, 0) for span in latest_first(root.span_id)]
    while waiting:
        span, depth = waiting.pop()
        first = span.attributes.get(FIRST_CHUNK_S)
        yield services.TracedSpan(
            kind=span.kind, name=span.name, start_s=span.start - root.start, end_s=span.end - root.start,
            depth=depth, error=span.error, first_s=float(first) if isinstance(first, int | float) else None,
            waited_s=sum(each.duration_s for each in below.get(span.span_id, ()) if each.kind in _WAITS),
        )  # fmt: skip
        waiting += [(each, depth + 1) for each in latest_first(span.span_id)]
