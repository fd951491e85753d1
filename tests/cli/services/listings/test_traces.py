"""What `/trace` is given: the turns of a session file, what sub-agents did in them included."""

from pathlib import Path

import pytest

from agent_cli.cli.services.listings.traces import traced_turns, turns_of
from agent_cli.protocol.messages import UserMessage
from agent_cli.store.child_sessions import agent_names
from agent_cli.telemetry.span import Span, SpanKind
from tests.telemetry.recorded.made import NOON, a_child, a_turn, answered, called, header, result, save


def test_turns_are_read_with_what_lies_in_them(tmp_path: Path) -> None:
    compaction = called(40, 4, 1, kind="summary", turn_id="c1")
    prompt = UserMessage(id="u2", turn_id="t2", time=NOON + 60, text="And look.")
    second = [prompt, called(64, 4, 1, turn_id="t2"), answered(64, "agent", turn_id="t2"), result(74, "agent", 10)]
    path = save(tmp_path / "20260921T120000Z-0ab1727c.json", [header(), *a_turn(), compaction, *second])
    child = list(a_child())
    save(tmp_path / "20260921T120000Z-0ab1727c.agents" / "20260921T120031Z-c1c1c1c1.json", child)
    first, beside, last = traced_turns(path)
    assert (first.number, beside.number, last.number) == (1, 0, 2)
    assert (first.ended, last.ended, first.duration_s, last.duration_s) == (True, False, 30, 14)
    assert first.shares["waiting"] == pytest.approx(6) and sum(first.shares.values()) == pytest.approx(30)
    shown = [(span.depth, span.kind, span.name) for span in first.spans]
    assert shown[:2] == [(0, "model", "openai/m"), (1, "retry", "retry")]
    assert (1, "approval", "shell") in shown
    assert {span.name: span.waited_s for span in first.spans if span.waited_s} == {"openai/m": 3, "shell": 6}
    assert [(span.depth, span.name) for span in last.spans] == [
        (0, "openai/m"), (0, "agent"), (1, "explore"), (2, "openai/m"), (2, "list_dir")
    ]  # fmt: skip
    assert agent_names(path) == {"c1c1c1c1": "explore-1"}


def _span(span_id: str, parent_id: str, start: float, end: float, kind: SpanKind = "tool") -> Span:
    return Span(
        trace_id="a" * 32, span_id=span_id, parent_id=parent_id, kind=kind, name=span_id, start=start, end=end
    )


def test_what_a_killed_program_has_left_is_a_turn_that_has_not_ended() -> None:
    (turn,) = turns_of([_span("late", "gone", 5, 9), _span("early", "gone", 2, 4), _span("in", "late", 6, 7)])
    assert (turn.number, turn.ended, turn.duration_s) == (1, False, 7)
    assert [(span.name, span.depth) for span in turn.spans] == [("early", 0), ("late", 0), ("in", 1)]
    assert turn.shares["tool"] == 6 and turn.shares["overhead"] == 1


def test_turns_are_in_the_order_they_began_also_below_a_span_of_another_program() -> None:
    turns = turns_of([_span("two", "above", 5, 9, "agent"), _span("one", "above", 1, 4, "agent")])
    assert [(turn.number, turn.duration_s) for turn in turns] == [(1, 3), (2, 4)]


def test_spans_in_a_circle_end_somewhere() -> None:
    circle = [_span("a", "", 0, 9, "agent"), _span("b", "a", 1, 2), _span("a", "b", 3, 4), _span("c", "c", 3, 4)]
    (turn,) = turns_of(circle)
    assert [span.name for span in turn.spans] == ["b"]
