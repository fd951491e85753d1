"""Spans out of events: the tree, its sums, its ends, and that it holds no content."""

import re
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.protocol import events as ev
from agent_cli.protocol.records import ModelCalled
from agent_cli.protocol.usage import Usage
from agent_cli.telemetry import conventions as names
from agent_cli.telemetry.content import Content
from agent_cli.telemetry.shares import time_shares
from agent_cli.telemetry.span import Span, SpanKind
from agent_cli.telemetry.spans import SpanBuilder
from agent_cli.telemetry.traceparent import Parent
from tests.rows import each_row

from .made_events import BEGAN, SESSION, MadeSession, MadeStep, MadeTool, steps

ENDED = ev.TurnCompleted(stop_reason="end_turn", text="", steps=1, duration_s=0.0)


def spans_of(said: Iterable[ev.AnyEvent | ModelCalled], **given_to_builder: object) -> list[Span]:
    """The spans of a session, in the order in which they ended."""
    found: list[Span] = []
    builder = SpanBuilder(found.append, **given_to_builder)  # type: ignore[arg-type]
    for each in said:
        builder.book(each) if isinstance(each, ModelCalled) else builder.event(each)
    return found


def at(seconds: float, event: ev.AnyEvent) -> ev.AnyEvent:
    return msgspec.structs.replace(event, time=BEGAN + seconds)


def tree(spans: list[Span]) -> dict[str, object]:
    """Names below names, siblings in the order of their beginning."""

    def below(parent: str) -> dict[str, object]:
        children = sorted((each for each in spans if each.parent_id == parent), key=lambda span: span.start)
        return {f"{names.span_name(each)} {number}": below(each.span_id) for number, each in enumerate(children)}

    return below("")


def sums(spans: list[Span], *attributes: str) -> list[float]:
    models = [span for span in spans if span.kind == "model"]
    return [sum(span.attributes.get(name, 0) for span in models) for name in attributes]  # type: ignore[misc]


def check_tree(spans: list[Span]) -> None:
    """Each span has an id of its own, a parent of its trace, and lies in time within its turn."""
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans)
    for span in spans:
        assert span.start <= span.end and re.fullmatch(r"[0-9a-f]{32}", span.trace_id)
        if span.parent_id:
            parent = by_id[span.parent_id]
            assert parent.trace_id == span.trace_id
            assert parent.start <= span.start + 1e-6 and span.end <= parent.end + 1e-6, (span, parent)
        else:
            assert span.kind == "agent"


def test_a_turn_is_a_tree_of_model_calls_and_tools() -> None:
    made = MadeSession()
    inner = (MadeStep(tools=(MadeTool(),)),)
    made.turn((MadeStep(failures=((5, 30),), tools=(MadeTool(approval=40), MadeTool(agent=inner))), MadeStep()))
    spans = spans_of(made.delivered())
    check_tree(spans)
    assert tree(spans) == {
        "invoke_agent agent-cli 0": {
            "chat m 0": {"wait.retry 0": {}},
            "execute_tool shell 1": {"wait.approval 0": {}},
            "execute_tool shell 2": {
                "wait.queue 0": {},
                "invoke_agent explore 1": {"chat m 0": {}, "execute_tool shell 1": {}},
            },
            "chat m 3": {},
        }
    }


@settings(max_examples=40, deadline=None)
@given(turns=st.lists(steps(), min_size=1, max_size=2), lag=st.integers(0, 2))
def test_every_millisecond_of_a_turn_is_counted_once(turns: list[tuple[MadeStep, ...]], lag: int) -> None:
    made = MadeSession(lag=lag)
    for each in turns:
        made.turn(each)
    spans = spans_of(made.delivered())
    check_tree(spans)
    shares = time_shares(spans)
    assert shares.keys() == {*made.expected_ms(), "overhead"}
    assert sum(shares.values()) == pytest.approx(made.now / 1000, abs=1e-5)
    approvals = sum(span.kind == "approval" for span in spans)
    for name, expected in made.expected_ms().items():
        # one that is told before its call has two short waits counted as one long one, beside what another call does
        late_s = 0.004 * approvals if lag and name in ("tool", "waiting") else 0.0
        assert shares[name] == pytest.approx(expected / 1000, abs=1e-4 + late_s), name


@settings(max_examples=40, deadline=None)
@given(turns=st.lists(steps(), min_size=1, max_size=2), lag=st.integers(0, 2))
def test_tokens_and_cost_are_those_of_the_ledger(turns: list[tuple[MadeStep, ...]], lag: int) -> None:
    made = MadeSession(lag=lag)
    for each in turns:
        made.turn(each)
    totals = made.totals
    wanted = [(totals.input or 0) + (totals.cache_read or 0), totals.output, totals.cost_usd, totals.requests]
    found = sums(
        spans_of(made.delivered()), names.INPUT_TOKENS, names.OUTPUT_TOKENS, names.COST_USD, names.ATTEMPTS
    )
    assert found == wanted


@settings(max_examples=60, deadline=None)
@given(turn=steps(), lag=st.integers(0, 2), cut=st.floats(0, 1))
def test_whenever_the_session_ends_all_that_began_ends(turn: tuple[MadeStep, ...], lag: int, cut: float) -> None:
    made = MadeSession(lag=lag)
    made.turn(turn)
    said = made.delivered()
    said = said[: int(len(said) * cut)]
    last = max(each.time for each in [SESSION, *said])
    closed = ev.SessionClosed(session_id="s1", time=last)
    spans = spans_of([*said, closed])
    inner = [each.event if isinstance(each, ev.AgentEvent) else each for each in said]
    kinds = [span.kind for span in spans]
    assert kinds.count("tool") == sum(isinstance(each, ev.ToolCallRequested) for each in inner)
    assert kinds.count("approval") == sum(isinstance(each, ev.ApprovalRequested) for each in inner)
    assert kinds.count("model") >= sum(isinstance(each, ev.StepStarted) for each in inner)
    booked = [each for each in said if isinstance(each, ModelCalled)]
    assert sums(spans, names.ATTEMPTS) == [len(booked)]
    assert len({span.span_id for span in spans}) == len(spans)


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (ev.TurnAborted(stop_reason="interrupted"), "interrupted"),
        (ev.TurnFailed(stop_reason="provider_error", error=ev.ErrorInfo("auth", "CANARY")), "auth"),
        (ENDED, ""),
    ],
    ids=["aborted", "failed", "completed"],
)
def test_what_a_turn_leaves_open_ends_with_it(end: ev.AnyEvent, error: str) -> None:
    requested = ev.ToolCallRequested(call_id="c", tool="shell", title="", arguments="{}")
    item = ev.ApprovalItem("c", "shell", "", "", "text", "", "mode ask", "", "{}", "")
    spans = spans_of(
        [
            SESSION,
            at(0, ev.TurnStarted(turn_id="t", text="")),
            at(1, ev.StepStarted(step=1, model="openai/m")),
            at(2, requested),
            at(3, ev.ApprovalRequested(request_id="r", items=(item,))),
            at(4, end),
        ]
    )
    assert sorted(span.kind for span in spans) == ["agent", "approval", "model", "queue", "tool"]
    assert {span.kind: span.error for span in spans}["agent"] == error
    assert max(span.end for span in spans) == BEGAN + 4


def test_the_end_of_another_submission_ends_no_turn() -> None:
    spans = spans_of(
        [
            SESSION,
            at(0, ev.TurnStarted(turn_id="t", text="", submission_id="a")),
            at(1, ev.TurnFailed(stop_reason="internal_error", error=ev.ErrorInfo("x", ""), submission_id="b")),
            at(2, ev.OperationCompleted(operation="ControlJob", submission_id="c")),
        ]
    )
    assert spans == []


def test_a_model_call_has_usage_cache_cost_and_time_to_the_first_token() -> None:
    entry = ModelCalled(
        id="c", kind="main", model="azure/m", outcome="length", usage=Usage(10, 5, 30, 20, 3), cost_usd=0.5,
        duration_s=2.0, first_token_s=0.5, time=BEGAN + 3,
    )  # fmt: skip
    answer = ev.AnswerCompleted(
        message_id="m", text="", finish="length", calls=0, usage=None, cost_usd=None, duration_s=2.0
    )
    said = [at(0, ev.TurnStarted(turn_id="t", text="")), at(1, ev.StepStarted(step=1, model="azure/m"))]
    model = spans_of([SESSION, *said, entry, at(3, answer), at(4, ENDED)])[0]
    assert (model.name, model.duration_s, model.error) == ("azure/m", 2.0, "")
    assert model.attributes == {
        names.CONVERSATION: "s1", names.PROVIDER: "azure.ai.openai", names.REQUEST_MODEL: "m",
        names.STREAM: True, names.CALL_KIND: "main", names.FIRST_CHUNK_S: 0.5,
        names.FINISH_REASONS: ("length",), names.INPUT_TOKENS: 60, names.OUTPUT_TOKENS: 5,
        names.CACHE_READ_TOKENS: 30, names.CACHE_WRITE_TOKENS: 20, names.CACHE_CREATION_TOKENS: 20,
        names.REASONING_TOKENS: 3, names.COST_USD: 0.5, names.ATTEMPTS: 1, names.CACHED_SHARE: 0.5,
    }  # fmt: skip


def test_unknown_usage_is_left_out_and_never_0() -> None:
    entry = ModelCalled(id="c", kind="main", model="m", outcome="interrupted", time=BEGAN + 2)
    said = [at(0, ev.TurnStarted(turn_id="t", text="")), at(1, ev.StepStarted(step=1, model="m")), entry]
    model = spans_of([SESSION, *said, at(3, ev.TurnAborted(stop_reason="interrupted"))])[0]
    assert model.error == "interrupted" and model.end == BEGAN + 2
    assert not {names.INPUT_TOKENS, names.OUTPUT_TOKENS, names.COST_USD} & model.attributes.keys()
    assert model.attributes[names.UNPRICED] == 1


def test_a_summary_lies_in_its_compaction() -> None:
    entry = ModelCalled(id="c", kind="summary", model="m", outcome="stop", time=BEGAN + 2, cost_usd=0.1)
    said = [
        at(0, ev.TurnStarted(turn_id="t", text="")),
        at(1, ev.StepStarted(step=1, model="m", kind="summary")),
        entry,
        at(3, ev.Compacted(before=100, after=40, how="summary", summary="CANARY")),
        at(4, ENDED),
    ]
    model, compaction, turn = spans_of([SESSION, *said])
    assert (model.kind, model.parent_id, model.end) == ("model", compaction.span_id, BEGAN + 2)
    assert compaction.parent_id == turn.span_id
    assert compaction.attributes[names.TOKENS_AFTER] == 40


@pytest.mark.parametrize("kind", ["summary", "sampling"])
def test_a_call_without_an_answer_to_show_is_told_when_it_is_booked(kind: str) -> None:
    entry = ModelCalled(id="c", kind=kind, model="m", outcome="stop", time=BEGAN + 2)  # type: ignore[arg-type]
    step = ev.StepStarted(step=0, model="m", kind=kind)  # type: ignore[arg-type]
    (model,) = spans_of([SESSION, at(0, ev.TurnStarted(turn_id="t", text="")), at(1, step), entry])
    assert (model.kind, model.end) == ("model", BEGAN + 2)


def test_a_background_agent_goes_on_behind_its_turn_and_counts_only_in_gaps() -> None:
    def agent(state: str) -> ev.AnyEvent:
        return ev.AgentChanged(
            agent_id="a", agent_name="explore-1", agent_type="explore", state=state, task="CANARY",  # type: ignore[arg-type]
            background=True,
        )  # fmt: skip

    inner = ev.AgentEvent(
        agent_id="a", agent_name="explore-1", event=at(1, ev.StepStarted(step=1, model="m")), time=BEGAN + 1
    )
    entry = ModelCalled(id="c", kind="subagent", agent="a", model="m", outcome="stop", time=BEGAN + 9)
    said = [
        at(0, ev.TurnStarted(turn_id="t", text="")),
        at(1, agent("running")),
        inner,
        at(2, ev.QuestionAsked(request_id="q", question="CANARY")),
        at(4, ev.QuestionResolved(request_id="q", outcome="answered")),
        at(5, ENDED),
        entry,
        at(10, agent("done")),
    ]
    spans = spans_of([SESSION, *said])
    turn = next(span for span in spans if span.name == names.SERVICE)
    child = next(span for span in spans if span.name == "explore")
    assert child.parent_id == turn.span_id and child.end == BEGAN + 10
    shares = time_shares(spans)
    assert sum(shares.values()) == 5
    assert (shares["waiting"], shares["first_token"] + shares["streaming"], shares["overhead"]) == (2, 2, 1)


def test_a_turn_has_the_mode_that_was_in_force_when_it_began() -> None:
    changed = ev.SettingsChanged(model="m", mode="yolo", effort="")
    turns = [at(0, ev.TurnStarted(turn_id="t", text="")), at(1, changed), at(1, ENDED)]
    turns += [at(2, ev.TurnStarted(turn_id="u", text="")), at(3, ENDED)]
    assert [span.attributes[names.MODE] for span in spans_of([SESSION, *turns])] == ["ask", "yolo"]


def test_a_hook_lies_in_the_call_it_was_asked_about() -> None:
    requested = ev.ToolCallRequested(call_id="c", tool="shell", title="", arguments="{}")
    hook = ev.HookRan(hook="/home/CANARY/h.sh", event="PreToolUse", duration_s=1.0, failure="CANARY")
    spans = spans_of(
        [SESSION, at(0, ev.TurnStarted(turn_id="t", text="")), at(1, requested), at(3, hook), at(4, ENDED)]
    )
    found = {span.kind: span for span in spans}
    assert found["hook"].parent_id == found["tool"].span_id
    assert (found["hook"].duration_s, found["hook"].error) == (1.0, "failed")


def test_an_mcp_call_is_one_span_with_the_attributes_of_mcp() -> None:
    call: dict[str, str] = {"call_id": "c", "tool": "mcp__docs__find", "title": ""}
    done = ev.ToolCallFinished(**call, status="failed", text="")  # type: ignore[arg-type]
    said = [at(1, ev.ToolCallRequested(**call, arguments="")), at(1, done)]
    tool = spans_of([SESSION, at(0, ev.TurnStarted(turn_id="t", text="")), *said])[0]
    assert tool.attributes[names.MCP_METHOD] == "tools/call" and tool.attributes[names.MCP_SERVER] == "docs"
    assert tool.error == "tool_error"


def test_the_program_above_is_the_parent() -> None:
    parent = Parent("ab" * 16, "cd" * 8)
    (turn,) = spans_of([SESSION, at(0, ev.TurnStarted(turn_id="t", text="")), at(1, ENDED)], parent=parent)
    assert (turn.trace_id, turn.parent_id) == (parent.trace_id, parent.span_id)


def test_a_command_is_given_the_span_of_its_call_a_sub_agents_before_it_is_announced() -> None:
    found: list[Span] = []
    builder = SpanBuilder(found.append)
    requested = at(2, ev.ToolCallRequested(call_id="c", tool="shell", title="", arguments=""))
    for event in (
        SESSION,
        at(0, ev.TurnStarted(turn_id="t", text="")),
        at(1, requested),
        at(
            1,
            ev.AgentChanged(agent_id="a", agent_name="x-1", agent_type="x", state="running", task="", call_id="c"),
        ),
    ):
        builder.event(event)
    ids = {name: builder.ids_of(*name) for name in [("", "c"), ("", "c.after"), ("", "user-command"), ("a", "c")]}
    builder.event(ev.AgentEvent(agent_id="a", agent_name="x-1", event=requested))
    builder.event(at(3, ENDED))
    builder.event(at(3, ev.SessionClosed(session_id="s1")))
    spans = {(span.kind, str(span.attributes.get(names.AGENT_ID, ""))): span for span in found}
    assert ids["", "c"] == ids["", "c.after"] == (spans["tool", ""].trace_id, spans["tool", ""].span_id)
    assert ids["", "user-command"][1] == spans["agent", ""].span_id
    assert ids["a", "c"][1] == spans["tool", "a"].span_id != ids["", "c"][1]
    assert builder.ids_of("", "c") == ("", "")


CANARY = "canary/of 'the' secret"
ALL_TEXTS = [
    SESSION,
    at(0, ev.TurnStarted(turn_id="t", text=CANARY)),
    at(0.1, ev.StepStarted(step=1, model="openai/m")),
    at(0.2, ev.TextDelta(text=CANARY)),
    at(0.2, ev.StepStarted(step=1, model=f"openai/{CANARY}")),
    at(0.2, ev.RetryScheduled(attempt=2, delay_s=0.1, error=ev.ErrorInfo("network", CANARY, CANARY, CANARY))),
    at(1, ev.AnswerCompleted(message_id=CANARY, text=CANARY, finish="stop", calls=1, usage=None, cost_usd=None, duration_s=1.0)),
    at(2, ev.ToolCallRequested(call_id=CANARY, tool=CANARY, title=CANARY, arguments=CANARY)),
    at(2, ev.ApprovalRequested(
        request_id=CANARY,
        items=(ev.ApprovalItem(CANARY, CANARY, CANARY, CANARY, "command", CANARY, f"{CANARY}/config.yaml: rule 3", CANARY, CANARY, ""),),
    )),
    at(3, ev.ApprovalResolved(request_id=CANARY, outcome="answered")),
    at(3, ev.ToolCallStarted(call_id=CANARY, tool=CANARY, title=CANARY)),
    at(3, ev.ToolOutput(call_id=CANARY, text=CANARY)),
    at(3, ev.QuestionAsked(request_id="q", question=CANARY, options=(CANARY,), server=CANARY)),
    at(3, ev.HookRan(hook=CANARY, event="PreToolUse", duration_s=0.1, failure=CANARY, rewrite=CANARY)),
    at(3, ev.Notice(level="info", text=CANARY)),
    at(3, ev.Compacted(before=1, after=1, how="summary", summary=CANARY)),
    at(4, ev.ToolCallFinished(
        call_id=CANARY, tool=CANARY, title=CANARY, status="failed", text=CANARY, display=CANARY, command=CANARY,
        rule=f"{CANARY}: rule 7", exit_code=3,
    )),
    at(5, ev.AgentChanged(agent_id="a", agent_name=CANARY, agent_type=CANARY, state="running", task=CANARY, line=CANARY)),
    at(6, ev.TurnFailed(stop_reason="provider_error", error=ev.ErrorInfo("network", CANARY, CANARY, CANARY))),
    at(7, ev.SessionClosed(session_id="s1", error=ev.ErrorInfo("internal_error", CANARY))),
]  # fmt: skip
"""Every place of an event that can hold what somebody has written."""


def test_no_text_of_anybody_is_in_a_span_by_default() -> None:
    spans = spans_of(ALL_TEXTS)
    assert {span.kind for span in spans} == {
        "agent",
        "model",
        "tool",
        "approval",
        "question",
        "retry",
        "hook",
        "compaction",
    }
    assert CANARY not in repr(spans) and "canary" not in repr(spans)
    assert "rule 7" in repr(spans) and "rule 3" in repr(spans)


INVENTED = ("/home/me/plan.txt", "git:push", "user@example.com", "https://x.example/a", "app.env")
"""What a model may call in the place of a tool, though no tool can have such a name."""


@pytest.mark.parametrize("name", INVENTED)
def test_a_name_that_no_tool_can_have_is_in_no_span(name: str) -> None:
    asked = ev.ToolCallRequested(call_id="c", tool=name, title=name, arguments="{}")
    done = ev.ToolCallFinished(call_id="c", tool=name, title=name, status="failed", text="no such tool")
    turn = [SESSION, at(0, ev.TurnStarted(turn_id="t", text="hi")), at(1, asked), at(2, done)]
    end = at(3, ev.TurnCompleted(text="", stop_reason="completed", steps=1, duration_s=3.0))
    spans = spans_of([*turn, end])
    assert [span.name for span in spans if span.kind == "tool"] == ["other"] and name not in repr(spans)


@each_row(
    ("kind", "attribute"),
    [
        ("prompts", names.INPUT_MESSAGES),
        ("answers", names.OUTPUT_MESSAGES),
        ("arguments", names.TOOL_ARGUMENTS),
        ("results", names.TOOL_RESULT),
        ("commands", names.COMMAND),
    ],
)
def test_each_kind_of_content_is_asked_for_apart(kind: str, attribute: str) -> None:
    spans = spans_of(ALL_TEXTS, content=Content([kind]))  # type: ignore[list-item]
    holding = {name for span in spans for name, value in span.attributes.items() if "canary" in repr(value)}
    assert holding == {attribute}


def test_a_first_piece_before_the_call_began_counts_from_its_beginning() -> None:
    def made(number: str, parent: str, kind: SpanKind, start: float, **facts: float) -> Span:
        return Span(
            trace_id="1", span_id=number, parent_id=parent, kind=kind, name="m", start=start, end=10.0,
            attributes=facts,
        )  # fmt: skip

    turn, call = made("a", "", "agent", 0.0), made("b", "a", "model", 4.0, **{names.FIRST_CHUNK_S: -3.0})
    shares = time_shares([turn, call])
    assert {name: length_s for name, length_s in shares.items() if length_s} == {"streaming": 6.0, "overhead": 4.0}
