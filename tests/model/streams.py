"""Recorded Chat Completions streams, usual and odd, each with the events it means."""

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
    TextWasThought,
    UsageReport,
)
from agent_cli.protocol.messages import Reasoning
from agent_cli.protocol.usage import Usage

USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 64}}
REPORT = UsageReport(Usage(input=36, output=20, cache_read=64))
DONE = "data: [DONE]\n\n"
STOP = Finished("stop", "stop")
MARK = "</think>\n"
CALLED = Finished("tool_calls", "tool_calls")


def data(chunk: dict[str, Any]) -> str:
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"


def delta(finish: str | None = None, **fields: Any) -> str:
    return data({"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})


def text(value: str) -> str:
    return delta(content=value)


def calls(*entries: dict[str, Any], finish: str | None = None) -> str:
    return delta(finish, tool_calls=list(entries))


def entry(
    index: int | None = None, id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    """One entry of `tool_calls`; what is None is not there at all."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    given = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return {**given, "function": function}


END = delta("stop") + data({"choices": [], "usage": USAGE}) + DONE
CALLS_END = delta("tool_calls") + data({"choices": [], "usage": USAGE}) + DONE
ROLE = delta(role="assistant", content="")


def reasoned(value: str, *pieces: str) -> list[ModelEvent]:
    return [*(ReasoningPiece(piece) for piece in pieces), ReasoningDone(Reasoning(value, provider="openai"))]


STREAMS: dict[str, tuple[str, list[ModelEvent]]] = {
    "plain": (
        ROLE + text("Hello ") + text("world") + END,
        [TextPiece("Hello "), TextPiece("world"), REPORT, STOP],
    ),
    "reasoning_content": (
        delta(reasoning_content="a ") + delta(reasoning_content="b") + text("x") + END,
        [*reasoned("a b", "a ", "b"), TextPiece("x"), REPORT, STOP],
    ),
    "reasoning": (
        delta(reasoning="why") + text("x") + END,
        [*reasoned("why", "why"), TextPiece("x"), REPORT, STOP],
    ),
    "reasoning_between_texts": (
        text("x") + delta(reasoning="r") + text("y") + delta(reasoning="s") + END,
        [
            TextPiece("x"),
            *reasoned("r", "r"),
            TextPiece("y"),
            ReasoningPiece("s"),
            REPORT,
            ReasoningDone(Reasoning("s", provider="openai")),
            STOP,
        ],
    ),
    "thoughts_in_the_text": (
        text("<th") + text("ink>\nwhy</think>") + text("\n\n") + text("x") + text(" y") + END,
        [*reasoned("why", "why"), TextPiece("x"), TextPiece(" y"), REPORT, STOP],
    ),
    "thoughts_in_the_text_before_a_call": (
        text("<think>why") + calls(entry(0, "a", "read", "{}")) + CALLS_END,
        [*reasoned("why", "why"), CallStart(0, "a", "read"), CallPiece(0, "{}"), REPORT, CALLED],
    ),
    "content_parts": (
        delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}])
        + delta(content=[{"type": "text", "text": "x"}])
        + END,
        [*reasoned("hm", "hm"), TextPiece("x"), REPORT, STOP],
    ),
    "parallel_calls": (
        text("I will.")
        + calls(entry(0, "a", "read", ""))
        + calls(entry(0, arguments='{"path":'))
        + calls(entry(0, arguments='"é"}'))
        + calls(entry(1, "b", "grep", '{"q": '))
        + calls(entry(1, arguments="1}"))
        + CALLS_END,
        [
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
    "interleaved_calls": (
        calls(entry(0, "a", "read"), entry(1, "b", "grep"))
        + calls(entry(1, arguments="{}"), entry(0, arguments='{"p":1}'))
        + CALLS_END,
        [
            CallStart(0, "a", "read"),
            CallStart(1, "b", "grep"),
            CallPiece(1, "{}"),
            CallPiece(0, '{"p":1}'),
            REPORT,
            CALLED,
        ],
    ),
    "same_index_other_ids": (
        calls(entry(0, "a", "read", '{"p":1}')) + calls(entry(0, "b", "grep", "{}")) + CALLS_END,
        [
            CallStart(0, "a", "read"),
            CallPiece(0, '{"p":1}'),
            CallStart(1, "b", "grep"),
            CallPiece(1, "{}"),
            REPORT,
            CALLED,
        ],
    ),
    "another_id_in_each_piece": (
        calls(entry(0, "a", "read", '{"p"')) + calls(entry(0, "b", arguments=":1}")) + CALLS_END,
        [CallStart(0, "a", "read"), CallPiece(0, '{"p"'), CallPiece(0, ":1}"), REPORT, CALLED],
    ),
    "same_index_no_ids": (
        calls(entry(0, "", "read", '{"p":1}')) + calls(entry(0, "", "read", '{"p":2}')) + CALLS_END,
        [
            CallStart(0, "", "read"),
            CallPiece(0, '{"p":1}'),
            CallStart(1, "", "read"),
            CallPiece(1, '{"p":2}'),
            REPORT,
            CALLED,
        ],
    ),
    "no_index": (
        calls(entry(None, "a", "read", '{"p":'))
        + calls(entry(None, arguments="1}"))
        + calls(entry(None, "b", "grep", "{}"))
        + CALLS_END,
        [
            CallStart(0, "a", "read"),
            CallPiece(0, '{"p":'),
            CallPiece(0, "1}"),
            CallStart(1, "b", "grep"),
            CallPiece(1, "{}"),
            REPORT,
            CALLED,
        ],
    ),
    "no_index_no_id_in_one_chunk": (
        calls(entry(None, None, "read", '{"p":1}'), entry(None, None, "grep", "{}")) + CALLS_END,
        [
            CallStart(0, "", "read"),
            CallPiece(0, '{"p":1}'),
            CallStart(1, "", "grep"),
            CallPiece(1, "{}"),
            REPORT,
            CALLED,
        ],
    ),
    "no_id_continued": (
        calls(entry(0, None, "read", '{"p":')) + calls(entry(0, None, None, "1}")) + CALLS_END,
        [CallStart(0, "", "read"), CallPiece(0, '{"p":'), CallPiece(0, "1}"), REPORT, CALLED],
    ),
    "id_and_name_repeated": (
        calls(entry(0, "a", "read", '{"p":'))
        + calls(entry(0, "a", "read", "1}"))
        + calls(entry(0, "a", "read", ""))
        + CALLS_END,
        [CallStart(0, "a", "read"), CallPiece(0, '{"p":'), CallPiece(0, "1}"), REPORT, CALLED],
    ),
    "name_repeated_without_id": (
        calls(entry(0, "", "read", '{"p":'))
        + calls(entry(0, "", "read", "1}"))
        + calls(entry(0, "", "read", ""))
        + CALLS_END,
        [CallStart(0, "", "read"), CallPiece(0, '{"p":'), CallPiece(0, "1}"), REPORT, CALLED],
    ),
    "late_name": (
        calls(entry(0, "a")) + calls(entry(0, None, "re")) + calls(entry(0, None, "ad", "{}")) + CALLS_END,
        [
            CallStart(0, "a", ""),
            CallPiece(0, name="re"),
            CallPiece(0, name="ad"),
            CallPiece(0, "{}"),
            REPORT,
            CALLED,
        ],
    ),
    "whole_call_with_the_finish": (
        calls(entry(0, "a", "read", '{"p":1}'), finish="tool_calls") + DONE,
        [CallStart(0, "a", "read"), CallPiece(0, '{"p":1}'), CALLED],
    ),
    "object_arguments": (
        calls(entry(0, "a", "read", {"p": [1, "é"]})) + CALLS_END,
        [CallStart(0, "a", "read"), CallPiece(0, '{"p":[1,"é"]}'), REPORT, CALLED],
    ),
    "calls_that_end_with_stop": (
        calls(entry(0, "a", "read", "{}")) + END,
        [CallStart(0, "a", "read"), CallPiece(0, "{}"), REPORT, Finished("tool_calls", "stop")],
    ),
    "usage_with_the_finish": (
        text("x") + data({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": USAGE}) + DONE,
        [TextPiece("x"), REPORT, STOP],
    ),
    "usage_repeated": (
        data({"choices": [{"delta": {"content": "x"}}], "usage": USAGE}) + END,
        [TextPiece("x"), REPORT, STOP],
    ),
    "no_usage_no_done": (text("x") + delta("stop"), [TextPiece("x"), STOP]),
    "last_newline_missing": (text("x") + delta("stop").rstrip("\n"), [TextPiece("x"), STOP]),
    "comments_and_pings": (
        ": PROCESSING\n\n" + text("x") + "event: ping\ndata: {}\n\n:\n\nretry: 10\nid: 7\n\n" + END,
        [TextPiece("x"), REPORT, STOP],
    ),
    "no_space_after_the_colon": ((text("x") + END).replace("data: ", "data:"), [TextPiece("x"), REPORT, STOP]),
    "crlf": ((text("x") + END).replace("\n", "\r\n"), [TextPiece("x"), REPORT, STOP]),
    "cr": ((text("x") + END).replace("\n", "\r"), [TextPiece("x"), REPORT, STOP]),
    "byte_order_mark": ("\ufeff" + text("x") + END, [TextPiece("x"), REPORT, STOP]),
    "line_separators_in_text": (
        text("a\u2028b\u2029c\u0085d\x0be") + END,
        [TextPiece("a\u2028b\u2029c\u0085d\x0be"), REPORT, STOP],
    ),
    "wide_characters": (text("héllo 世界 🎉") + END, [TextPiece("héllo 世界 🎉"), REPORT, STOP]),
    "halved_character": (
        'data: {"choices":[{"delta":{"content":"a\\ud83c"}}]}\n\n'
        'data: {"choices":[{"delta":{"content":"\\udf89b"}}]}\n\n' + END,
        [TextPiece("a"), TextPiece("🎉b"), REPORT, STOP],
    ),
    "several_data_lines": (
        'data: {"choices":[{"delta":\ndata: {"content":"x"}}]}\n\n' + END,
        [TextPiece("x"), REPORT, STOP],
    ),
    "nulls": (
        data({"choices": None})
        + delta(content=None, tool_calls=None)
        + data({"choices": [{"delta": None}]})
        + text("x")
        + END,
        [TextPiece("x"), REPORT, STOP],
    ),
    "other_choices": (
        data({"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}) + text("x") + END,
        [TextPiece("x"), REPORT, STOP],
    ),
    "length": (text("cut") + delta("length") + DONE, [TextPiece("cut"), Finished("length", "length")]),
    "content_filter": (
        text("cut") + delta("content_filter") + DONE,
        [TextPiece("cut"), Finished("content_filter", "content_filter")],
    ),
    "refusal": (
        delta(refusal="I cannot") + delta("stop") + DONE,
        [TextPiece("I cannot"), Finished("content_filter", "refusal")],
    ),
    "unknown_finish": (
        text("x") + delta("MALFORMED_FUNCTION_CALL") + DONE,
        [TextPiece("x"), Finished("unknown", "MALFORMED_FUNCTION_CALL")],
    ),
}

LONE_ENDS: dict[str, tuple[str, list[ModelEvent]]] = {
    "thoughts_in_the_text_that_the_template_began": (
        text("why") + text(".\n") + text("</think>") + text("\n\nx") + text(" </think>\ny") + END,
        [
            TextPiece("why"),
            TextPiece(".\n"),
            TextWasThought("openai", MARK),
            TextPiece("x"),
            TextPiece(" </think>\ny"),
            REPORT,
            STOP,
        ],
    ),
    "the_end_of_thoughts_in_pieces": (
        text("why <") + text("/thi") + text("nk>") + text("\n") + text("x < y </th") + text("e>") + END,
        [
            TextPiece("why "),
            TextWasThought("openai", MARK),
            TextPiece("x < y </th"),
            TextPiece("e>"),
            REPORT,
            STOP,
        ],
    ),
    "what_only_begins_like_the_end_of_thoughts": (
        text("x <") + text(" y </") + text("b>") + text("</think") + END,
        [TextPiece("x "), TextPiece("< y "), TextPiece("</b>"), REPORT, TextPiece("</think"), STOP],
    ),
    "thoughts_in_the_text_alone": (
        text("why</think>") + END,
        [TextPiece("why"), REPORT, TextWasThought("openai", MARK), STOP],
    ),
    "thoughts_that_the_template_began_before_a_call": (
        text("why</think>") + calls(entry(0, "a", "read", "{}")) + CALLS_END,
        [
            TextPiece("why"),
            TextWasThought("openai", MARK),
            CallStart(0, "a", "read"),
            CallPiece(0, "{}"),
            REPORT,
            CALLED,
        ],
    ),
    "a_text_about_the_end_of_thoughts": (
        text("It ends with `") + text("</think>") + text("`.\n") + text("</think> ends it") + END,
        [TextPiece("It ends with `"), TextPiece("</think>`.\n"), TextPiece("</think> ends it"), REPORT, STOP],
    ),
    "told_thoughts_and_the_end_of_others": (
        delta(reasoning_content="why") + text("x\n</think>\ny") + END,
        [*reasoned("why", "why"), TextPiece("x\n</think>\ny"), REPORT, STOP],
    ),
}
"""From servers without a parser for a reasoning whose beginning the template has written."""

FAULTS: dict[str, tuple[str, str, int]] = {
    "missing_finish": (ROLE + text("par") + text("tial"), "truncated", 2),
    "missing_finish_with_done": (text("partial") + DONE, "truncated", 1),
    "missing_finish_in_a_call": (calls(entry(0, "a", "write", '{"content": "hal')), "truncated", 2),
    "empty": ("", "truncated", 0),
    "only_done": (DONE, "truncated", 0),
    "cut_in_a_chunk": (text("ok") + 'data: {"choices": [{"delta": {"conte', "truncated", 1),
    "malformed_event": (text("ok") + 'data: {"choices": [{"del\n\n' + END, "malformed", 1),
    "error": (
        text("ok") + data({"error": {"message": "overloaded", "type": "server_error", "code": 503}}),
        "overloaded",
        1,
    ),
    "error_with_a_choice": (
        text("ok")
        + data({"error": {"code": 429, "message": "slow"}, "choices": [{"delta": {}, "finish_reason": "error"}]}),
        "rate_limit",
        1,
    ),
    "error_event": (text("ok") + 'event: error\ndata: {"message": "boom"}\n\n', "server", 1),
    "error_in_the_choice": (
        text("ok") + data({"choices": [{"error": {"code": 502, "message": "x"}, "delta": {}}]}),
        "server",
        1,
    ),
    "error_object": (text("ok") + data({"object": "error", "message": "x", "code": 400}), "bad_request", 1),
    "error_finish": (text("ok") + delta("error"), "server", 1),
    "no_resources": (text("ok") + delta("insufficient_system_resource"), "overloaded", 1),
}
"""Stream, kind of the error it ends in, and how many events come before."""
