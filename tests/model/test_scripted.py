import asyncio
from contextlib import aclosing

import pytest

from agent_cli.model.types.base import (
    CallPiece,
    CallStart,
    Finished,
    ModelError,
    ModelRequest,
    TextPiece,
    UsageReport,
)
from agent_cli.protocol.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from tests.model.scripted import USAGE, Call, ScriptedModel, call, fail, hang, say
from tests.model.valid import check_prefix, check_request
from tests.rows import each_row

USER = UserMessage(id="u1", text="hi")


def assistant(*calls: ToolCall, text: str = "") -> AssistantMessage:
    return AssistantMessage(id="a1", text=text, calls=calls)


def result(call_id: str) -> ToolResult:
    return ToolResult(id=f"r_{call_id}", call_id=call_id, tool="t", status="ok", text="x")


def request(*messages: Message) -> ModelRequest:
    return ModelRequest(system="s", messages=messages)


A, B = ToolCall("a", "t", "{}"), ToolCall("b", "t", '{"x": 1}')


@each_row(
    "messages",
    [
        (USER,),
        (USER, assistant(A, B), result("a"), result("b")),
        (USER, assistant(text="fine"), UserMessage(id="u2", text="more")),
        (USER, assistant(A), result("a"), assistant(B), result("b"), USER),
        (UserMessage(id="u", text="", context="date"),),
    ],
)
def test_valid_requests_pass(messages: tuple[Message, ...]) -> None:
    check_request(request(*messages))


@each_row(
    ("messages", "rule"),
    [
        ((), "no messages"),
        ((assistant(text="x"), USER), "not the user's"),
        ((USER, assistant(text="x")), "nothing to answer"),
        ((UserMessage(id="u", text=" \n"),), "is empty"),
        ((USER, assistant(A)), "nothing to answer"),
        ((USER, assistant(A, B), result("a")), "have no result"),
        ((USER, assistant(A, B), result("b"), result("a")), "belongs"),
        ((USER, assistant(A), USER, result("a")), "before the results"),
        ((USER, assistant(A), result("a"), result("a")), "orphan"),
        ((USER, result("a")), "orphan"),
        ((USER, assistant(A, A), result("a"), result("a")), "more than once"),
        ((USER, assistant(A), result("a"), assistant(A), result("a")), "more than once"),
        ((USER, assistant(ToolCall("", "t", "{}")), result("")), "empty id"),
        ((USER, assistant(ToolCall("a", "", "{}")), result("a")), "no name"),
        ((USER, assistant(ToolCall("a", "t", "{")), result("a")), "not JSON"),
        ((USER, assistant(ToolCall("a", "t", "[]")), result("a")), "no object"),
        ((USER, assistant(), USER), "neither text nor calls"),
        ((UserMessage(id="u", text="\ud800"),), "UTF-8"),
    ],
)
def test_invalid_requests_are_refused(messages: tuple[Message, ...], rule: str) -> None:
    with pytest.raises(AssertionError, match=rule):
        check_request(request(*messages))


def test_a_changed_message_breaks_the_prefix() -> None:
    check_prefix(request(USER), request(USER, assistant(text="x"), USER))
    with pytest.raises(AssertionError, match="message 0 changed"):
        check_prefix(request(USER), request(UserMessage(id="u1", text="other"), USER))
    with pytest.raises(AssertionError, match="taken away"):
        check_prefix(request(USER, USER), request(USER))


async def test_a_reply_becomes_events() -> None:
    model = ScriptedModel(say("one ", "two", call("read_file", path="a"), Call("x", "{", id="z")))
    events = [event async for event in model.stream(request(USER))]
    assert events == [
        TextPiece("one "),
        TextPiece("two"),
        CallStart(0, "call_1", "read_file"),
        CallPiece(0, '{"path": "a"}'),
        CallStart(1, "z", "x"),
        CallPiece(1, "{"),
        UsageReport(USAGE),
        Finished("tool_calls", "tool_calls"),
    ]
    model.check()


async def test_failures_requests_and_violations_are_kept() -> None:
    model = ScriptedModel(fail("rate_limit", retry_after_s=3, after=("part",)), say("ok"))
    with pytest.raises(ModelError) as caught:
        [event async for event in model.stream(request(USER))]
    assert (caught.value.kind, caught.value.retry_after_s) == ("rate_limit", 3)
    with pytest.raises(AssertionError, match="no messages"):
        [event async for event in model.stream(request())]
    assert len(model.requests) == 2
    with pytest.raises(AssertionError, match="no messages"):
        model.check()


async def test_a_hang_ends_with_the_cancel() -> None:
    model = ScriptedModel(hang("partial"))

    async def consume() -> None:
        async with aclosing(model.stream(request(USER))) as events:
            async for _ in events:
                pass

    task = asyncio.create_task(consume())
    await model.hanging.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (model.active, model.cancelled) == (0, 1)


async def test_the_end_of_the_script_is_a_failure_unless_then_is_given() -> None:
    with pytest.raises(AssertionError, match="at its end"):
        [event async for event in ScriptedModel().stream(request(USER))]
    model = ScriptedModel(then=lambda asked: say(asked.messages[-1].text))
    assert TextPiece("hi") in [event async for event in model.stream(request(USER))]
