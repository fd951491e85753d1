"""Recorded OpenAI Responses streams, usual and odd, each with the events it means. The shapes are those of
the provider's documentation and of servers that imitate it."""

import json
from typing import Any

from agent_cli.model.types.base import (
    CallPiece,
    CallStart,
    Finished,
    ModelEvent,
    ReasoningDone,
    ReasoningPiece,
    TextPiece,
    UsageReport,
)
from agent_cli.protocol.messages import Reasoning
from agent_cli.protocol.usage import Usage

USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 64},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 120,
}
REPORT = UsageReport(Usage(input=36, output=20, cache_read=64, reasoning=5))
STOP = Finished("stop", "completed")
CALLED = Finished("tool_calls", "completed")


def event(name: str, **fields: Any) -> str:
    name = name if name == "error" else f"response.{name}"
    return f"event: {name}\ndata: {json.dumps({'type': name} | fields, ensure_ascii=False)}\n\n"


CREATED = event("created", response={"id": "resp_1", "status": "in_progress"}) + event("in_progress", response={})


def message(text: str, kind: str = "output_text", **fields: Any) -> dict[str, Any]:
    part = {"type": kind, "refusal" if kind == "refusal" else "text": text}
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": [part]} | fields


def reasoning(*texts: str, encrypted: str | None = "enc", **fields: Any) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text} for text in texts]
    return {"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": encrypted} | fields


def function(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": f"fc_{id}", "type": "function_call", "call_id": id, "name": name, "arguments": arguments}


def added(index: int, item: dict[str, Any]) -> str:
    empty = {"content": [], "summary": [], "arguments": "", "encrypted_content": ""}
    return event("output_item.added", output_index=index, item={k: empty.get(k, v) for k, v in item.items()})


def done(index: int, item: dict[str, Any]) -> str:
    return event("output_item.done", output_index=index, item=item)


def said(index: int, *pieces: str, whole: bool = True) -> str:
    """A message in pieces, and whole behind them."""
    item = message("".join(pieces))
    place = {"output_index": index, "content_index": 0}
    deltas = "".join(event("output_text.delta", **place, delta=piece) for piece in pieces)
    text = event("output_text.done", **place, text="".join(pieces)) if whole else ""
    return added(index, item) + deltas + text + done(index, item)


def thought(index: int, *parts: tuple[str, ...]) -> str:
    """A reasoning item: pieces of each part of its summary."""
    item = reasoning(*("".join(pieces) for pieces in parts))
    inner = ""
    for place, pieces in enumerate(parts):
        where = {"output_index": index, "summary_index": place}
        inner += event("reasoning_summary_part.added", **where, part={"type": "summary_text", "text": ""})
        inner += "".join(event("reasoning_summary_text.delta", **where, delta=piece) for piece in pieces)
        inner += event("reasoning_summary_text.done", **where, text="".join(pieces))
    return added(index, item) + inner + done(index, item)


def called(index: int, id: str, name: str, *pieces: str) -> str:
    """A call in pieces, and whole behind them."""
    item = function(id, name, "".join(pieces))
    deltas = "".join(event("function_call_arguments.delta", output_index=index, delta=piece) for piece in pieces)
    text = event("function_call_arguments.done", output_index=index, arguments="".join(pieces))
    return added(index, item) + deltas + text + done(index, item)


def end(status: str = "completed", **fields: Any) -> str:
    return event(status, response={"status": status, "output": [], "usage": USAGE} | fields)


def incomplete(reason: str | None) -> str:
    return end("incomplete", incomplete_details={"reason": reason} if reason else None)


def block(text: str, encrypted: str = "enc") -> ReasoningDone:
    return ReasoningDone(Reasoning(text, encrypted, "openai"))


STREAMS: dict[str, tuple[str, list[ModelEvent]]] = {
    "plain": (
        CREATED + said(0, "Hello ", "world") + end(),
        [TextPiece("Hello "), TextPiece("world"), REPORT, STOP],
    ),
    "reasoning": (
        CREATED + thought(0, ("a ", "b")) + said(1, "x") + end(),
        [ReasoningPiece("a "), ReasoningPiece("b"), block("a b"), TextPiece("x"), REPORT, STOP],
    ),
    "reasoning_in_two_parts": (
        CREATED + thought(0, ("a",), ("b", "c")) + said(1, "x") + end(),
        [
            ReasoningPiece("a"),
            ReasoningPiece("\n\nb"),
            ReasoningPiece("c"),
            block("a\n\nbc"),
            TextPiece("x"),
            REPORT,
            STOP,
        ],
    ),
    "reasoning_without_a_summary": (
        CREATED + thought(0) + said(1, "x") + end(),
        [block(""), TextPiece("x"), REPORT, STOP],
    ),
    "open_reasoning": (
        CREATED
        + event("reasoning_text.delta", output_index=0, content_index=0, delta="hm")
        + done(0, reasoning(encrypted=None, content=[{"type": "reasoning_text", "text": "hm"}]))
        + said(1, "x")
        + end(),
        [ReasoningPiece("hm"), block("hm", ""), TextPiece("x"), REPORT, STOP],
    ),
    "parallel_calls": (
        CREATED
        + said(0, "I will.")
        + called(1, "a", "read", '{"path":', '"é"}')
        + called(2, "b", "grep", '{"q": 1}')
        + end(),
        [
            TextPiece("I will."),
            CallStart(0, "a", "read"),
            CallPiece(0, '{"path":'),
            CallPiece(0, '"é"}'),
            CallStart(1, "b", "grep"),
            CallPiece(1, '{"q": 1}'),
            REPORT,
            CALLED,
        ],
    ),
    "reasoning_between_calls": (
        CREATED + called(0, "a", "read", "{}") + thought(1, ("hm",)) + called(2, "b", "read", "{}") + end(),
        [
            CallStart(0, "a", "read"),
            CallPiece(0, "{}"),
            ReasoningPiece("hm"),
            block("hm"),
            CallStart(1, "b", "read"),
            CallPiece(1, "{}"),
            REPORT,
            CALLED,
        ],
    ),
    "calls_in_turns": (
        CREATED
        + added(0, function("a", "read", ""))
        + added(1, function("b", "read", ""))
        + event("function_call_arguments.delta", output_index=0, delta='{"p":')
        + event("function_call_arguments.delta", output_index=1, delta='{"q":')
        + event("function_call_arguments.delta", output_index=0, delta="1}")
        + event("function_call_arguments.delta", output_index=1, delta="2}")
        + done(0, function("a", "read", '{"p":1}'))
        + done(1, function("b", "read", '{"q":2}'))
        + end(),
        [
            CallStart(0, "a", "read"),
            CallStart(1, "b", "read"),
            CallPiece(0, '{"p":'),
            CallPiece(1, '{"q":'),
            CallPiece(0, "1}"),
            CallPiece(1, "2}"),
            REPORT,
            CALLED,
        ],
    ),
    "events_by_item_id": (
        CREATED
        + event("output_item.added", item=function("a", "read", ""))
        + event("function_call_arguments.delta", item_id="fc_a", delta='{"p":')
        + event("function_call_arguments.done", item_id="fc_a", arguments='{"p":1}')
        + event("output_item.done", item=function("a", "read", '{"p":1}'))
        + end(),
        [CallStart(0, "a", "read"), CallPiece(0, '{"p":'), CallPiece(0, "1}"), REPORT, CALLED],
    ),
    "whole_call_in_one_event": (
        CREATED + done(0, function("a", "read", '{"p":1}')) + end(),
        [CallStart(0, "a", "read"), CallPiece(0, '{"p":1}'), REPORT, CALLED],
    ),
    "whole_call_in_its_beginning": (
        CREATED
        + event("output_item.added", output_index=0, item=function("a", "read", '{"p":1}'))
        + done(0, function("a", "read", '{"p":1}'))
        + end(),
        [CallStart(0, "a", "read"), CallPiece(0, '{"p":1}'), REPORT, CALLED],
    ),
    "pieces_before_the_call": (
        CREATED
        + event("function_call_arguments.delta", output_index=0, delta='{"p":1}')
        + done(0, function("a", "read", '{"p":1}'))
        + end(),
        [CallStart(0, "a", "read"), CallPiece(0, '{"p":1}'), REPORT, CALLED],
    ),
    "call_without_arguments": (
        CREATED + called(0, "a", "list", "") + end(),
        [CallStart(0, "a", "list"), REPORT, CALLED],
    ),
    "whole_items_only": (
        CREATED + done(0, reasoning("hm")) + done(1, message("x")) + end(),
        [ReasoningPiece("hm"), block("hm"), TextPiece("x"), REPORT, STOP],
    ),
    "whole_text_only": (
        CREATED + event("output_text.done", output_index=0, content_index=0, text="x") + end(),
        [TextPiece("x"), REPORT, STOP],
    ),
    "the_end_of_the_text_in_its_whole": (
        CREATED
        + event("output_text.delta", output_index=0, content_index=0, delta="Hel")
        + event("output_text.done", output_index=0, content_index=0, text="Hello")
        + done(0, message("Hello you"))
        + end(),
        [TextPiece("Hel"), TextPiece("lo"), TextPiece(" you"), REPORT, STOP],
    ),
    "only_the_last_event": (
        end(output=[reasoning("hm"), message("x"), function("a", "read", "{}")]),
        [
            ReasoningPiece("hm"),
            block("hm"),
            TextPiece("x"),
            CallStart(0, "a", "read"),
            CallPiece(0, "{}"),
            REPORT,
            CALLED,
        ],
    ),
    "everything_repeated_at_the_end": (
        CREATED
        + said(0, "x")
        + called(1, "a", "read", "{}")
        + end(output=[message("x"), function("a", "read", "{}")]),
        [TextPiece("x"), CallStart(0, "a", "read"), CallPiece(0, "{}"), REPORT, CALLED],
    ),
    "two_messages": (
        CREATED + said(0, "One.") + said(1, "Two.") + end(),
        [TextPiece("One."), TextPiece("\n\n"), TextPiece("Two."), REPORT, STOP],
    ),
    "refusal": (
        CREATED
        + event("refusal.delta", output_index=0, content_index=0, delta="I ca")
        + event("refusal.done", output_index=0, content_index=0, refusal="I cannot")
        + done(0, message("I cannot", "refusal"))
        + end(),
        [TextPiece("I ca"), TextPiece("nnot"), REPORT, Finished("content_filter", "refusal")],
    ),
    "refusal_in_the_item": (
        CREATED + done(0, message("I cannot", "refusal")) + end(),
        [TextPiece("I cannot"), REPORT, Finished("content_filter", "refusal")],
    ),
    "length": (
        CREATED + said(0, "cut") + incomplete("max_output_tokens"),
        [TextPiece("cut"), REPORT, Finished("length", "max_output_tokens")],
    ),
    "length_in_a_call": (
        CREATED
        + added(0, function("a", "write", ""))
        + event("function_call_arguments.delta", output_index=0, delta='{"content": "hal')
        + incomplete("max_output_tokens"),
        [
            CallStart(0, "a", "write"),
            CallPiece(0, '{"content": "hal'),
            REPORT,
            Finished("length", "max_output_tokens"),
        ],
    ),
    "content_filter": (
        CREATED + said(0, "cut") + incomplete("content_filter"),
        [TextPiece("cut"), REPORT, Finished("content_filter", "content_filter")],
    ),
    "incomplete_without_a_reason": (
        CREATED + said(0, "x") + incomplete(None),
        [TextPiece("x"), REPORT, Finished("unknown", "incomplete")],
    ),
    "events_and_items_nobody_knows": (
        CREATED
        + event("web_search_call.searching", output_index=0, item_id="ws_1")
        + done(0, {"id": "ws_1", "type": "web_search_call", "status": "completed"})
        + event("output_text.annotation.added", output_index=1, annotation={})
        + "event: keepalive\ndata: {}\n\n"
        + said(1, "x")
        + end(),
        [TextPiece("x"), REPORT, STOP],
    ),
    "something_behind_the_end": (
        CREATED + said(0, "x") + end() + said(1, "y") + end(),
        [TextPiece("x"), REPORT, STOP],
    ),
    "no_usage": (CREATED + said(0, "x") + end(usage=None), [TextPiece("x"), STOP]),
    "no_event_names_and_done": (
        "".join(line + "\n\n" for line in (CREATED + said(0, "x") + end()).split("\n") if line.startswith("data:"))
        + "data: [DONE]\n\n",
        [TextPiece("x"), REPORT, STOP],
    ),
    "crlf_and_comments": (
        (": wait\n\n" + CREATED + said(0, "x") + end()).replace("\n", "\r\n"),
        [TextPiece("x"), REPORT, STOP],
    ),
    "wide_characters": (
        CREATED + said(0, "héllo 世界 🎉\u2028") + end(),
        [TextPiece("héllo 世界 🎉\u2028"), REPORT, STOP],
    ),
    "halved_character": (
        'data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"a\\ud83c"}\n\n'
        'data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"\\udf89b"}\n\n'
        + end(),
        [TextPiece("a"), TextPiece("🎉b"), REPORT, STOP],
    ),
}


def failed(code: str, message: str = "no") -> str:
    return end("failed", error={"code": code, "message": message})


FAULTS: dict[str, tuple[str, str, int]] = {
    "missing_end": (CREATED + said(0, "par", "tial"), "truncated", 2),
    "missing_end_with_done": (CREATED + said(0, "partial") + "data: [DONE]\n\n", "truncated", 1),
    "missing_end_in_a_call": (
        CREATED
        + added(0, function("a", "write", ""))
        + event("function_call_arguments.delta", output_index=0, delta='{"c'),
        "truncated",
        2,
    ),
    "empty": ("", "truncated", 0),
    "malformed_event": (CREATED + said(0, "ok") + 'data: {"type": "respo\n\n' + end(), "malformed", 1),
    "cut_in_an_event": (
        CREATED + said(0, "ok") + 'event: response.completed\ndata: {"type": "respo',
        "truncated",
        1,
    ),
    "failed": (CREATED + said(0, "ok") + failed("server_error"), "server", 1),
    "failed_for_length": (CREATED + failed("context_length_exceeded"), "context_overflow", 0),
    "failed_without_a_reason": (
        CREATED + said(0, "ok") + event("failed", response={"status": "failed"}),
        "server",
        1,
    ),
    "cancelled": (CREATED + said(0, "ok") + event("cancelled", response={"status": "cancelled"}), "server", 1),
    "error": (
        CREATED + said(0, "ok") + event("error", code="rate_limit_exceeded", message="slow"),
        "rate_limit",
        1,
    ),
    "error_with_an_object": (
        CREATED + event("error", error={"type": "invalid_request_error", "message": "no"}),
        "bad_request",
        0,
    ),
    "error_without_a_code": (CREATED + event("error", code=None, message="boom"), "server", 0),
    "overloaded": (CREATED + failed("server_is_overloaded"), "overloaded", 0),
}
"""Stream, kind of the error it ends in, and how many events come before."""
