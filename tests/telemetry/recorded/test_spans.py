"""Spans out of a session file say what the session's ledger says."""

from pathlib import Path

import pytest
from hypothesis import given, settings

from agent_cli.protocol.messages import UserMessage
from agent_cli.protocol.records import AnyRecord, ModelCalled
from agent_cli.protocol.usage import Totals
from agent_cli.session.costs import Costs
from agent_cli.store.catalog import totals
from agent_cli.telemetry import conventions as names
from agent_cli.telemetry.recorded.spans import Recorded, recorded, spans_of
from agent_cli.telemetry.shares import time_shares
from agent_cli.telemetry.span import Span
from tests.fuzz import tries

from .made import NOON, a_child, a_turn, called, header, result, save, sessions


def ledger(records: list[AnyRecord]) -> Totals:
    costs = Costs()
    for record in records:
        if isinstance(record, ModelCalled):
            costs.add(record)
    return costs.totals


def agree(spans: list[Span], sums: Totals) -> None:
    """Spans of model calls hold the same tokens and the same money as the ledger."""

    def of_all(name: str) -> float:
        return sum(float(span.attributes.get(name, 0)) for span in spans if span.kind == "model")  # type: ignore[arg-type]

    assert of_all(names.COST_USD) == pytest.approx(sums.cost_usd or 0.0)
    assert of_all(names.OUTPUT_TOKENS) == (sums.output or 0)
    assert of_all(names.CACHE_READ_TOKENS) == (sums.cache_read or 0)
    assert of_all(names.CACHE_WRITE_TOKENS) == (sums.cache_write or 0)
    assert of_all(names.REASONING_TOKENS) == (sums.reasoning or 0)
    assert of_all(names.ATTEMPTS) == sums.requests
    assert of_all(names.UNPRICED) == sums.unpriced


@given(sessions())
@settings(max_examples=tries(200), deadline=None)
def test_sums_over_the_spans_are_those_of_the_ledger(records: list[AnyRecord]) -> None:
    spans = spans_of(Recorded(tuple(records)))
    agree(spans, ledger(records))
    assert len({span.span_id for span in spans}) == len(spans)
    assert all(span.end >= span.start for span in spans)
    known = {span.span_id for span in spans} | {""}
    assert {span.parent_id for span in spans} <= known


def test_a_turn_is_a_tree_and_its_attempts_are_one_call() -> None:
    spans = spans_of(Recorded((header(), *a_turn())))
    (turn,) = (span for span in spans if span.kind == "agent")
    calls = [span for span in spans if span.kind == "model"]
    assert [(span.start - NOON, span.end - NOON) for span in calls] == [(0, 10), (23, 28)]
    assert calls[0].attributes[names.ATTEMPTS] == 2 and not calls[0].error
    (pause,) = (span for span in spans if span.kind == "retry")
    assert (pause.parent_id, pause.error, pause.duration_s) == (calls[0].span_id, "rate_limit", 3)
    (shell,) = (span for span in spans if span.name == "shell" and span.kind == "tool")
    (wait,) = (span for span in spans if span.kind == "approval")
    assert (wait.parent_id, wait.duration_s, shell.duration_s) == (shell.span_id, 6, 10)
    assert {span.parent_id for span in (*calls, shell)} == {turn.span_id}
    shares = time_shares(spans)
    assert (sum(shares.values()), shares["waiting"], shares["retry"]) == pytest.approx((30, 6, 3))


def test_what_a_sub_agent_did_lies_in_the_call_that_started_it_and_is_paid_once(tmp_path: Path) -> None:
    paid = called(35, 4, 1, kind="subagent", agent="c1c1c1c1", id="cp", cost_usd=0.5, usage=a_child()[3].usage)  # type: ignore[union-attr]
    prompt = UserMessage(id="u2", turn_id="t1", time=NOON + 31, text="And look.")
    own = [header(), *a_turn(), prompt, paid, result(38, "agent", 7)]
    path = save(tmp_path / "20260921T120000Z-0ab1727c.json", own)
    save(tmp_path / "20260921T120000Z-0ab1727c.agents" / "20260921T120031Z-c1c1c1c1.json", a_child())
    (tmp_path / "20260921T120000Z-0ab1727c.agents" / "broken.json").write_text("nothing")
    spans = spans_of(recorded(path))
    agree(spans, totals(path)[1])
    (call,) = (span for span in spans if span.name == "agent")
    (child,) = (span for span in spans if span.name == "explore")
    inner = [span for span in spans if span.parent_id == child.span_id]
    assert child.parent_id == call.span_id and child.trace_id == call.trace_id and not child.error
    assert sorted(span.kind for span in inner) == ["model", "tool"]
    assert all(span.attributes[names.AGENT_ID] == "c1c1c1c1" for span in inner)


def test_without_the_file_of_a_sub_agent_its_calls_stand_where_they_were_paid() -> None:
    paid = called(35, 4, 1, kind="subagent", agent="gone", cost_usd=0.5)
    spans = spans_of(Recorded((header(), *a_turn(), paid)))
    agree(spans, ledger([*a_turn(), paid]))


def test_no_content_is_in_any_span() -> None:
    canary = "CANARY"
    secret = [
        UserMessage(id="u", turn_id="t1", time=NOON, text=canary, context=canary),
        called(2, 1, 1, model=f"x/{canary} {canary}"),
        result(3, f"{canary} {canary}", 1, text=canary, command=canary, display=canary, rule=f"deny: {canary}"),
    ]
    assert canary not in repr(spans_of(Recorded((header(), *secret))))


def test_a_name_that_no_tool_can_have_is_in_no_span() -> None:
    spans = spans_of(Recorded((header(), *a_turn(), result(31, "/home/me/plan.txt", 1))))
    assert "other" in {span.name for span in spans if span.kind == "tool"} and "plan.txt" not in repr(spans)
