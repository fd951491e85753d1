"""The strict doubles refuse what the providers refuse; a double that takes everything proves nothing."""

from typing import Any

from tests.model import strict_anthropic, strict_responses
from tests.rows import each_row

Json = dict[str, Any]
TEXT = {"type": "text", "text": "hi"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
USE = {"type": "tool_use", "id": "c", "name": "t", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "x"}
MARK = {"cache_control": {"type": "ephemeral"}}
TOOL = {"name": "t", "description": "", "input_schema": {"type": "object"}}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks or (TEXT,))}


def model(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks or (TEXT,))}


def picture(data: str = "aGk=", kind: str = "image/png") -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


@each_row(
    ("messages", "problem"),
    [
        ([user()], ""),
        ([user(), model(THOUGHT, TEXT, USE), user(RESULT, TEXT)], ""),
        ([user({**RESULT, "tool_use_id": "x"})], "unexpected `tool_use_id`"),
        ([], "Field required"),
        ([model(), user()], "alternate"),
        ([user(), user()], "alternate"),
        ([user(), model()], "prefill"),
        ([user({**TEXT, "text": ""})], "non-empty"),
        ([user({**TEXT, "text": " \n"})], "non-whitespace"),
        ([{"role": "user", "content": []}], "non-empty content"),
        ([{"role": "user", "content": ""}], "non-empty"),
        ([user({**TEXT, "extra": 1})], "Extra inputs"),
        ([user({"type": "text"})], "Field required"),
        ([user(THOUGHT)], "Input tag"),
        ([user(), model(USE), user()], "without `tool_result`"),
        ([user(), model(USE), user(TEXT, RESULT)], "without `tool_result`"),
        ([user(), model(USE), user(RESULT, RESULT)], "single result"),
        ([user(), model(USE, USE), user(RESULT)], "must be unique"),
        ([user(), model(USE), user(RESULT), model(USE), user(RESULT)], "must be unique"),
        ([user(), model({**USE, "id": "c:1"}), user({**RESULT, "tool_use_id": "c:1"})], "should match pattern"),
        ([user(), model({**USE, "name": "a b"}), user(RESULT)], "should match pattern"),
        ([user(), model({**USE, "input": "{}"}), user(RESULT)], "valid dictionary"),
        ([user(), model({**THOUGHT, "signature": ""}, TEXT), user()], "Invalid `signature`"),
        ([user(), model({"type": "thinking", "thinking": "hm"}, TEXT), user()], "Field required"),
        ([user(), model({"type": "redacted_thinking", "data": ""}, TEXT), user()], "Invalid `data`"),
        ([user(), model(TEXT, THOUGHT), user()], "cannot be `thinking`"),
        ([user(picture("")), ], "should be a picture"),
        ([user(picture(kind="image/bmp"))], "should be a picture"),
        ([user(picture("x" * 5_000_001))], "5 MB"),
        ([user(*[picture()] * 101)], "too many images"),
        ([user(), model(USE), user({**RESULT, "content": [{**TEXT, "text": ""}]})], "non-empty"),
        ([user(*[{**TEXT, **MARK}] * 5)], "A maximum of 4"),
        ([user(), model({**THOUGHT, **MARK}, TEXT), user()], "Extra inputs"),
    ],
)  # fmt: skip
def test_anthropic_messages(messages: list[Json], problem: str) -> None:
    found = strict_anthropic.complaint({"model": "m", "max_tokens": 9, "messages": messages})
    assert problem in found if problem else found == ""


@each_row(
    ("fields", "problem"),
    [
        ({"system": [TEXT], "tools": [TOOL], "tool_choice": {"type": "none"}}, ""),
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"stream_options": {}}, "stream_options: Extra inputs"),
        ({"system": ""}, "non-empty"),
        ({"system": [{**TEXT, "text": " "}]}, "non-whitespace"),
        ({"tools": [TOOL, TOOL]}, "unique"),
        ({"tools": [{**TOOL, "name": "a b"}]}, "should match pattern"),
        ({"tools": [{**TOOL, "input_schema": {}}]}, "Input should be 'object'"),
        (
            {"tools": [{**TOOL, "input_schema": {"type": "object", "properties": {"$filter": {}}}}]},
            "Property keys should match pattern",
        ),
        ({"tool_choice": {"type": "none"}}, "while providing tools"),
        ({"thinking": {"type": "enabled", "budget_tokens": 9}}, "greater than or equal to 1024"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "must be greater than"),
        ({"thinking": {"type": "adaptive", "budget_tokens": 2000}}, "Extra inputs"),
        ({"model": "claude-opus-4-8", "max_tokens": 9999, "thinking": {"type": "enabled", "budget_tokens": 2000}}, "not supported"),
        ({"model": "claude-sonnet-4-5", "thinking": {"type": "adaptive"}}, "not supported"),
        ({"output_config": {"effort": "minimal"}}, "effort"),
    ],
)  # fmt: skip
def test_anthropic_settings(fields: Json, problem: str) -> None:
    found = strict_anthropic.complaint({"model": "m", "max_tokens": 9, "messages": [user()], **fields})
    assert problem in found if problem else found == ""


def test_an_anthropic_budget_wants_a_turn_that_began_with_thinking() -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    fields = {"model": "m", "max_tokens": 2000, "thinking": thinking}
    second = [model({**USE, "id": "d"}), user({**RESULT, "tool_use_id": "d"})]
    assert not strict_anthropic.complaint(
        {**fields, "messages": [user(), model(THOUGHT, USE), user(RESULT), *second]}
    )
    assert not strict_anthropic.complaint(
        {**fields, "messages": [user(), model(USE), user(RESULT), model(), user()]}
    )
    found = strict_anthropic.complaint({**fields, "messages": [user(), model(USE), user(RESULT), *second]})
    assert found.startswith("messages.1.content.0.type: Expected `thinking`")


def say(text: Any = "hi", role: str = "user") -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


CALL = {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": ""}
REASONED = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "enc"}


@each_row(
    ("items", "problem"),
    [
        ([say()], ""),
        ([{"role": "user", "content": "hi"}], ""),
        ([say(), REASONED, say("x", "assistant"), CALL, OUTPUT], ""),
        ([say(), REASONED, REASONED, CALL, OUTPUT, REASONED, say("x", "assistant")], ""),
        ([], "empty array"),
        ([say("")], "empty"),
        ([{"role": "robot", "content": "x"}], "unknown role"),
        ([{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}], "Invalid value: 'input_text'"),
        ([{**say(), "cache_control": {}}], "Unknown parameter: 'input[0].cache_control'"),
        ([say(), CALL], "No tool output found"),
        ([say(), OUTPUT], "No tool call found"),
        ([say(), CALL, OUTPUT, OUTPUT], "No tool call found"),
        ([say(), CALL, OUTPUT, CALL, OUTPUT], "used twice"),
        ([say(), {**CALL, "arguments": "[]"}, OUTPUT], "no JSON object"),
        ([say(), {**CALL, "arguments": {}}, OUTPUT], "no JSON object"),
        ([say(), {**CALL, "name": "a b"}, OUTPUT], "pattern"),
        ([say(), {**CALL, "call_id": "c" * 65}, OUTPUT], "maximum length 64"),
        ([say(), {**CALL, "id": "x"}, OUTPUT], "begins with 'fc'"),
        ([say(), {**REASONED, "id": "rs_1"}, {**REASONED, "id": "rs_1"}, say("x", "assistant")], "Duplicate item"),
        ([say(), {"type": "reasoning", "summary": []}, say("x", "assistant")], "encrypted_content"),
        ([say(), {**REASONED, "encrypted_content": None}, say("x", "assistant")], "encrypted_content is missing"),
        ([say(), {**REASONED, "summary": ["hm"]}, say("x", "assistant")], "summary"),
        ([say(), REASONED], "required following item"),
        ([say(), REASONED, say()], "required following item"),
        ([say(), CALL, REASONED, OUTPUT], "required following item"),
        ([{"role": "user", "content": [{"type": "input_image", "image_url": "http://x"}]}], "base64"),
        ([say(), {"type": "web_search_call"}], "Invalid value"),
    ],
)  # fmt: skip
def test_responses_input(items: list[Json], problem: str) -> None:
    found = strict_responses.complaint({"model": "m", "store": False, "stream": True, "input": items})
    assert problem in found if problem else found == ""


TOOL_FLAT = {"type": "function", "name": "t", "parameters": {"type": "object"}, "strict": False}


@each_row(
    ("fields", "problem"),
    [
        ({"tools": [TOOL_FLAT], "tool_choice": "none", "reasoning": {"effort": "low", "summary": "auto"}}, ""),
        ({"store": True}, "store"),
        ({"store": None}, "store"),
        ({"messages": []}, "Unknown parameter: 'messages'"),
        ({"model": ""}, "'model'"),
        ({"include": ["everything"]}, "include"),
        ({"reasoning": {"effort": "enormous"}}, "Invalid value"),
        ({"reasoning": {"budget": 1}}, "reasoning.budget"),
        ({"max_output_tokens": 4}, "below minimum"),
        ({"prompt_cache_key": "k" * 65}, "too long"),
        ({"tools": [{"type": "function", "function": {"name": "t"}}]}, "tools[0]"),
        ({"tools": [{**TOOL_FLAT, "parameters": {}}]}, "Invalid schema"),
        ({"tool_choice": "none"}, "tool_choice"),
    ],
)  # fmt: skip
def test_responses_settings(fields: Json, problem: str) -> None:
    found = strict_responses.complaint({"model": "m", "store": False, "stream": True, "input": [say()], **fields})
    assert problem in found if problem else found == ""
