"""Recorded Anthropic Messages streams, usual and odd, each with the events it means. The shapes are those of
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

EARLY = {"input_tokens": 36, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 8, "output_tokens": 1}
BEGUN = UsageReport(Usage(input=36, cache_read=64, cache_write=8))
"""The count of the output that comes with the beginning is a placeholder."""
REPORT = UsageReport(Usage(input=36, output=20, cache_read=64, cache_write=8))
STOP = Finished("stop", "end_turn")
CALLED = Finished("tool_calls", "tool_use")
PING = 'event: ping\ndata: {"type": "ping"}\n\n'


def event(name: str, **fields: Any) -> str:
    return f"event: {name}\ndata: {json.dumps({'type': name} | fields, ensure_ascii=False)}\n\n"


def start(usage: dict[str, Any] | None = None) -> str:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude"}
    return event("message_start", message=message | {"stop_reason": None, "usage": usage or EARLY})


def begin(index: int, kind: str, **fields: Any) -> str:
    return event("content_block_start", index=index, content_block={"type": kind} | fields)


def delta(index: int, kind: str, **fields: Any) -> str:
    return event("content_block_delta", index=index, delta={"type": kind} | fields)


def close(index: int) -> str:
    return event("content_block_stop", index=index)


def text(index: int, *pieces: str) -> str:
    deltas = "".join(delta(index, "text_delta", text=piece) for piece in pieces)
    return begin(index, "text", text="") + deltas + close(index)


def thinking(index: int, *pieces: str, signature: str = "sig") -> str:
    deltas = "".join(delta(index, "thinking_delta", thinking=piece) for piece in pieces)
    signed = delta(index, "signature_delta", signature=signature) if signature else ""
    return begin(index, "thinking", thinking="", signature="") + deltas + signed + close(index)


def call(index: int, id: str, name: str, *pieces: str) -> str:
    deltas = "".join(delta(index, "input_json_delta", partial_json=piece) for piece in pieces)
    return begin(index, "tool_use", id=id, name=name, input={}) + deltas + close(index)


def ended(reason: str, **usage: Any) -> str:
    return event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=usage)


LAST = event("message_stop")


def end(reason: str = "end_turn") -> str:
    return ended(reason, output_tokens=20) + LAST


def block(text: str, signature: str = "sig", *, redacted: bool = False) -> ReasoningDone:
    return ReasoningDone(Reasoning(text, signature, "anthropic", redacted))


STREAMS: dict[str, tuple[str, list[ModelEvent]]] = {
    "plain": (
        start() + PING + text(0, "Hello ", "world") + end(),
        [BEGUN, TextPiece("Hello "), TextPiece("world"), REPORT, STOP],
    ),
    "thinking": (
        start() + thinking(0, "a ", "b") + text(1, "x") + end(),
        [BEGUN, ReasoningPiece("a "), ReasoningPiece("b"), block("a b"), TextPiece("x"), REPORT, STOP],
    ),
    "thinking_that_is_not_shown": (
        start() + thinking(0) + text(1, "x") + end(),
        [BEGUN, block(""), TextPiece("x"), REPORT, STOP],
    ),
    "signature_in_pieces": (
        start()
        + begin(0, "thinking", thinking="a", signature="")
        + delta(0, "signature_delta", signature="si")
        + delta(0, "signature_delta", signature="g")
        + close(0)
        + text(1, "x")
        + end(),
        [BEGUN, ReasoningPiece("a"), block("a"), TextPiece("x"), REPORT, STOP],
    ),
    "redacted_thinking": (
        start() + begin(0, "redacted_thinking", data="opaque") + close(0) + text(1, "x") + end(),
        [BEGUN, block("", "opaque", redacted=True), TextPiece("x"), REPORT, STOP],
    ),
    "thinking_between_texts_and_calls": (
        start()
        + thinking(0, "one")
        + text(1, "x")
        + call(2, "a", "read", '{"p":1}')
        + thinking(3, "two", signature="sig2")
        + call(4, "b", "read", '{"p":2}')
        + end("tool_use"),
        [
            BEGUN,
            ReasoningPiece("one"),
            block("one"),
            TextPiece("x"),
            CallStart(0, "a", "read"),
            CallPiece(0, '{"p":1}'),
            ReasoningPiece("two"),
            block("two", "sig2"),
            CallStart(1, "b", "read"),
            CallPiece(1, '{"p":2}'),
            REPORT,
            CALLED,
        ],
    ),
    "parallel_calls": (
        start()
        + text(0, "I will.")
        + call(1, "a", "read", "", '{"path":', '"é"}')
        + call(2, "b", "grep", '{"q": ', "1}")
        + end("tool_use"),
        [
            BEGUN,
            TextPiece("I will."),
            CallStart(0, "a", "read"),
            CallPiece(0, '{"path":'),
            CallPiece(0, '"é"}'),
            CallStart(1, "b", "grep"),
            CallPiece(1, '{"q": '),
            CallPiece(1, "1}"),
            REPORT,
            CALLED,
        ],
    ),
    "calls_in_turns": (
        start()
        + begin(0, "tool_use", id="a", name="read", input={})
        + begin(1, "tool_use", id="b", name="read", input={})
        + delta(0, "input_json_delta", partial_json='{"p":')
        + delta(1, "input_json_delta", partial_json='{"q":')
        + delta(0, "input_json_delta", partial_json="1}")
        + delta(1, "input_json_delta", partial_json="2}")
        + close(0)
        + close(1)
        + end("tool_use"),
        [
            BEGUN,
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
    "call_without_arguments": (
        start() + call(0, "a", "list", "") + end("tool_use"),
        [BEGUN, CallStart(0, "a", "list"), REPORT, CALLED],
    ),
    "whole_call_in_its_beginning": (
        start() + begin(0, "tool_use", id="a", name="read", input={"p": ["é"]}) + close(0) + end("tool_use"),
        [BEGUN, CallStart(0, "a", "read"), CallPiece(0, '{"p":["é"]}'), REPORT, CALLED],
    ),
    "call_without_an_id": (
        start() + begin(0, "tool_use", name="read", input={}) + close(0) + end("tool_use"),
        [BEGUN, CallStart(0, "", "read"), REPORT, CALLED],
    ),
    "calls_that_end_with_end_turn": (
        start() + call(0, "a", "read", "{}") + end(),
        [BEGUN, CallStart(0, "a", "read"), CallPiece(0, "{}"), REPORT, Finished("tool_calls", "end_turn")],
    ),
    "no_indices_no_block_ends": (
        start()
        + event("content_block_start", content_block={"type": "thinking", "thinking": ""})
        + event("content_block_delta", delta={"type": "thinking_delta", "thinking": "hm"})
        + event("content_block_start", content_block={"type": "text", "text": "x"})
        + event("content_block_delta", delta={"type": "text_delta", "text": "y"})
        + end(),
        [BEGUN, ReasoningPiece("hm"), block("hm", ""), TextPiece("x"), TextPiece("y"), REPORT, STOP],
    ),
    "deltas_without_a_beginning": (
        start() + delta(0, "thinking_delta", thinking="hm") + delta(1, "text_delta", text="x") + end(),
        [BEGUN, ReasoningPiece("hm"), TextPiece("x"), block("hm", ""), REPORT, STOP],
    ),
    "blocks_and_deltas_nobody_knows": (
        start()
        + begin(0, "server_tool_use", id="srv", name="web_search", input={})
        + delta(0, "input_json_delta", partial_json='{"query": "x"}')
        + close(0)
        + begin(1, "text", text="")
        + delta(1, "citations_delta", citation={"type": "page_location"})
        + delta(1, "text_delta", text="x")
        + close(1)
        + event("compaction", content=None)
        + end(),
        [BEGUN, TextPiece("x"), REPORT, STOP],
    ),
    "counts_by_cache_lifetime": (
        start(
            {
                "input_tokens": 36,
                "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 3},
            }
        )
        + text(0, "x")
        + ended("end_turn", output_tokens=20, output_tokens_details={"thinking_tokens": 7})
        + LAST,
        [
            UsageReport(Usage(input=36, cache_write=8)),
            TextPiece("x"),
            UsageReport(Usage(input=36, output=20, cache_write=8, reasoning=7)),
            STOP,
        ],
    ),
    "counts_at_the_end_only": (
        start({"input_tokens": 0, "output_tokens": 0})
        + text(0, "x")
        + ended("end_turn", input_tokens=36, output_tokens=20, cache_read_input_tokens=64)
        + LAST,
        [
            UsageReport(Usage(input=0)),
            TextPiece("x"),
            UsageReport(Usage(input=36, output=20, cache_read=64)),
            STOP,
        ],
    ),
    "counts_that_are_zero_at_the_end": (
        start() + text(0, "x") + ended("end_turn", input_tokens=0, output_tokens=20) + LAST,
        [BEGUN, TextPiece("x"), REPORT, STOP],
    ),
    "no_last_event": (
        start() + text(0, "x") + ended("end_turn", output_tokens=20),
        [BEGUN, TextPiece("x"), REPORT, STOP],
    ),
    "no_stop_reason": (start() + text(0, "x") + LAST, [BEGUN, TextPiece("x"), Finished("stop", "message_stop")]),
    "no_usage": (
        event("message_start", message={"content": []})
        + text(0, "x")
        + event("message_delta", delta={"stop_reason": "end_turn"})
        + LAST,
        [TextPiece("x"), STOP],
    ),
    "something_behind_the_end": (
        start() + text(0, "x") + end() + text(1, "y"),
        [BEGUN, TextPiece("x"), REPORT, STOP],
    ),
    "no_event_names": (
        "".join(
            line + "\n\n" for line in (start() + text(0, "x") + end()).split("\n") if line.startswith("data:")
        ),
        [BEGUN, TextPiece("x"), REPORT, STOP],
    ),
    "types_in_the_event_names_only": (
        'event: message_start\ndata: {"message": {}}\n\n'
        'event: content_block_delta\ndata: {"delta": {"type": "text_delta", "text": "x"}}\n\n'
        'event: message_delta\ndata: {"delta": {"stop_reason": "end_turn"}}\n\n'
        "event: message_stop\ndata: {}\n\n",
        [TextPiece("x"), STOP],
    ),
    "crlf_and_comments": (
        (": wait\n\n" + start() + text(0, "x") + end()).replace("\n", "\r\n"),
        [BEGUN, TextPiece("x"), REPORT, STOP],
    ),
    "wide_characters": (
        start() + text(0, "héllo 世界 🎉\u2028") + end(),
        [BEGUN, TextPiece("héllo 世界 🎉\u2028"), REPORT, STOP],
    ),
    "halved_character": (
        start()
        + 'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\\ud83c"}}\n\n'
        + 'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\udf89b"}}\n\n'
        + end(),
        [BEGUN, TextPiece("a"), TextPiece("🎉b"), REPORT, STOP],
    ),
    "max_tokens": (
        start() + text(0, "cut") + end("max_tokens"),
        [BEGUN, TextPiece("cut"), REPORT, Finished("length", "max_tokens")],
    ),
    "max_tokens_in_a_call": (
        start() + call(0, "a", "write", '{"content": "hal') + end("max_tokens"),
        [
            BEGUN,
            CallStart(0, "a", "write"),
            CallPiece(0, '{"content": "hal'),
            REPORT,
            Finished("length", "max_tokens"),
        ],
    ),
    "full_window": (
        start() + text(0, "cut") + end("model_context_window_exceeded"),
        [BEGUN, TextPiece("cut"), REPORT, Finished("length", "model_context_window_exceeded")],
    ),
    "stop_sequence": (
        start() + text(0, "x") + end("stop_sequence"),
        [BEGUN, TextPiece("x"), REPORT, Finished("stop", "stop_sequence")],
    ),
    "refusal": (
        start() + text(0, "I cannot") + end("refusal"),
        [BEGUN, TextPiece("I cannot"), REPORT, Finished("content_filter", "refusal")],
    ),
    "pause": (
        start() + text(0, "x") + end("pause_turn"),
        [BEGUN, TextPiece("x"), REPORT, Finished("unknown", "pause_turn")],
    ),
}


def error(kind: str, message: str = "no") -> str:
    return event("error", error={"type": kind, "message": message})


FAULTS: dict[str, tuple[str, str, int]] = {
    "missing_end": (start() + text(0, "par", "tial"), "truncated", 3),
    "missing_end_with_done": (start() + text(0, "partial") + "data: [DONE]\n\n", "truncated", 2),
    "missing_end_in_a_call": (start() + begin(0, "tool_use", id="a", name="write") + delta(0, "input_json_delta", partial_json='{"c'), "truncated", 3),
    "missing_end_in_a_thought": (start() + begin(0, "thinking") + delta(0, "thinking_delta", thinking="hm"), "truncated", 3),
    "empty": ("", "truncated", 0),
    "only_pings": (PING * 3, "truncated", 0),
    "malformed_event": (start() + 'data: {"type": "content_blo\n\n' + end(), "malformed", 1),
    "cut_in_an_event": (start() + text(0, "ok") + 'event: content_block_delta\ndata: {"type": "conte', "truncated", 2),
    "arguments_of_no_call": (start() + delta(0, "input_json_delta", partial_json="{"), "malformed", 1),
    "overloaded": (start() + text(0, "ok") + error("overloaded_error", "Overloaded"), "overloaded", 2),
    "rate_limited": (start() + error("rate_limit_error"), "rate_limit", 1),
    "failed": (start() + text(0, "ok") + error("api_error", "Internal server error"), "server", 2),
    "refused": (start() + error("invalid_request_error", "messages.1: no"), "bad_request", 1),
    "error_without_an_object": (start() + 'event: error\ndata: {"message": "boom"}\n\n', "server", 1),
    "error_that_is_text": (start() + 'event: error\ndata: "boom"\n\n', "server", 1),
}  # fmt: skip
"""Stream, kind of the error it ends in, and how many events come before."""
