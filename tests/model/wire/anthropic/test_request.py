import itertools
import json
from typing import Any

import msgspec
import pytest

from agent_cli.model.http_model import encode
from agent_cli.model.types.base import LearnedLimits, ModelInfo, ModelRequest, ToolSpec
from agent_cli.model.types.json import Json
from agent_cli.model.types.provider_table import PROVIDERS, Route
from agent_cli.model.wire.anthropic.dialect import AnthropicDialect
from agent_cli.model.wire.anthropic.request import longest_answer, thinking_of
from agent_cli.model.wire.dialect import EncodedRequest
from agent_cli.protocol.messages import (
    AssistantMessage,
    Image,
    Message,
    Reasoning,
    ToolCall,
    ToolResult,
    UserMessage,
)
from tests.model.strict_anthropic import complaint
from tests.rows import each_row

TOOL = ToolSpec("read", "Reads.", {"type": "object", "properties": {}})
PICTURE = Image("image/png", "aGk=")
SHOWN = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
MARK = {"cache_control": {"type": "ephemeral"}}

CONVERSATION: tuple[Message, ...] = (
    UserMessage(id="u1", text="look", context="today", images=(PICTURE,)),
    AssistantMessage(
        id="a1",
        text="I look. Then more.",
        reasoning=(
            Reasoning("one", "s1", "anthropic"),
            Reasoning("", "opaque", "anthropic", redacted=True),
            Reasoning("two", "s2", "anthropic", after_text=7, after_calls=1),
            Reasoning("foreign", "s3", "openai"),
            Reasoning("unsigned", "", "anthropic"),
            Reasoning("last", "s4", "anthropic", after_text=18, after_calls=2),
        ),
        calls=(ToolCall("c:1", "read", '{ "p": "é", "n": 1.0 }'), ToolCall("c2", "read it", '{"path')),
    ),
    ToolResult(id="r1", call_id="c:1", tool="read", status="ok", text="", images=(PICTURE,)),
    ToolResult(id="r2", call_id="c2", tool="read", status="failed", text=" "),
    UserMessage(id="u2", text="stop that"),
    AssistantMessage(id="a2", text="done"),
    AssistantMessage(id="a3", text="really"),
    UserMessage(id="u3", text=" ", context="now"),
)


def route(model: str = "claude-sonnet-5-5", provider: str = "anthropic", base_url: str = "") -> Route:
    return Route(
        f"{provider}/{model}",
        provider,
        model,
        "anthropic_messages",
        base_url,
        quirks=PROVIDERS["anthropic"].quirks,
    )


def request(*messages: Message, **fields: Any) -> ModelRequest:
    return ModelRequest(system="be good", messages=messages or CONVERSATION, tools=(TOOL,), **fields)


def written(
    asked: ModelRequest, model: str = "claude-sonnet-5-5", *, most: int | None = 64_000, **learnt: Any
) -> EncodedRequest:
    dialect = AnthropicDialect(route(model), ModelInfo(f"anthropic/{model}", max_output_tokens=most))
    return dialect.write(asked, LearnedLimits(**learnt))


def body_of(asked: ModelRequest, model: str = "claude-sonnet-5-5", **fields: Any) -> Json:
    body: Json = json.loads(encode(written(asked, model, **fields).body))
    assert complaint(body) == ""
    return body


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def test_the_whole_conversation() -> None:
    messages = body_of(request(), refused=("cache_marks",))["messages"]
    first = messages[1]["content"][3]["id"]
    assert first.startswith("call_") and len(first) == 29
    assert messages == [
        {"role": "user", "content": [text("today\n\nlook"), SHOWN]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "one", "signature": "s1"},
                {"type": "redacted_thinking", "data": "opaque"},
                text("I look."),
                {"type": "tool_use", "id": first, "name": "read", "input": {"p": "é", "n": 1.0}},
                {"type": "thinking", "thinking": "two", "signature": "s2"},
                text(" Then more."),
                {"type": "tool_use", "id": "c2", "name": "read_it", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": first, "content": [SHOWN]},
                {"type": "tool_result", "tool_use_id": "c2", "is_error": True, "content": "[no output]"},
                text("stop that"),
            ],
        },
        {"role": "assistant", "content": [text("done"), text("really")]},
        {"role": "user", "content": [text("now")]},
    ]


def test_the_body() -> None:
    body = body_of(request(effort="high", max_output_tokens=5000))
    assert list(body)[-1] == "messages"
    body.pop("messages")
    assert body == {
        "model": "claude-sonnet-5-5",
        "stream": True,
        "max_tokens": 5000,
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "high"},
        "tools": [{"name": "read", "description": "Reads.", "input_schema": TOOL.parameters, **MARK}],
        "system": [{**text("be good"), **MARK}],
    }
    assert body_of(request(may_call=False))["tool_choice"] == {"type": "none"}
    assert "tool_choice" not in body_of(request(must_call="read", effort="high")), "refused beside thinking"
    free, bound = (body_of(request(must_call=name), "claude-3-5-haiku-latest") for name in ("", "read"))
    assert bound.pop("tool_choice") == {"type": "tool", "name": "read"}
    assert list(bound.items()) == list(free.items())
    assert "system" not in body_of(msgspec.structs.replace(request(), system=" "))


def test_the_last_two_messages_of_the_user_are_marked_and_nothing_that_is_kept_changes() -> None:
    asked = request()
    messages = body_of(asked)["messages"]
    marked = [place for place, message in enumerate(messages) if "cache_control" in message["content"][-1]]
    assert marked == [2, 4]
    assert body_of(asked)["tools"] and "cache_control" not in TOOL.parameters


def test_arguments_are_sent_as_the_model_wrote_them() -> None:
    assert b'"input":{ "p": "\xc3\xa9", "n": 1.0 }' in encode(written(request()).body)


def test_but_for_the_marks_each_body_is_a_byte_prefix_of_the_next() -> None:
    bodies = []
    for end in (1, 4, 5, 8):
        body = encode(written(request(*CONVERSATION[:end]), refused=("cache_marks",)).body)
        assert not complaint(json.loads(body))
        bodies.append(body)
    for earlier, later in itertools.pairwise(bodies):
        assert earlier.endswith(b"}]}]}") and later.startswith(earlier.removesuffix(b"]}]}"))
    plain = json.loads(bodies[-1])
    stripped = json.dumps(body_of(request())).replace(', "cache_control": {"type": "ephemeral"}', "")
    assert json.loads(stripped) == plain


def test_every_block_knows_its_message() -> None:
    made = written(request())
    assert made.sources == ("u1", "a1", "r1", "a2", "u3")
    assert made.parts[2] == ("r1", "r2", "u2") and made.parts[3] == ("a2", "a3")


@each_row(
    ("model", "effort", "sent"),
    [
        ("claude-sonnet-5-5", "", {"thinking": {"type": "adaptive", "display": "summarized"}}),
        ("claude-sonnet-5-5", "none", {"thinking": {"type": "between_tools"}}),
        ("claude-opus-5-5", "none", {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}}),
        ("claude-opus-5", "none", {"thinking": {"type": "disabled"}}),
        ("claude-haiku-5-5", "none", {"thinking": {"type": "disabled"}}),
        ("claude-opus-4-8", "", {}),
        ("claude-opus-4-8", "none", {}),
        ("claude-opus-4-8", "minimal", {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}}),
        ("claude-opus-4-6-20260205", "xhigh", {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}}),
        ("claude-fable-5-1", "max", {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "max"}}),
        ("claude-sonnet-4-5-20250929", "high", {"thinking": {"type": "enabled", "budget_tokens": 16_384}}),
        ("claude-haiku-4.5", "minimal", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        ("claude-sonnet-4-5", "max", {"thinking": {"type": "enabled", "budget_tokens": 32_000}}),
        ("claude-sonnet-4-5", "none", {}),
        ("claude-sonnet-4-5", "", {}),
        ("claude-3-5-haiku-latest", "high", {}),
        ("kimi-k2", "low", {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
    ],
)  # fmt: skip
def test_effort(model: str, effort: str, sent: Json) -> None:
    body = body_of(request(UserMessage(id="u", text="hi"), effort=effort), model)
    assert {name: body[name] for name in ("thinking", "output_config") if name in body} == sent


def test_a_budget_leaves_room_for_the_answer() -> None:
    ask = UserMessage(id="u", text="hi")
    small = body_of(request(ask, effort="high", max_output_tokens=4000), "claude-sonnet-4-5")
    assert (small["max_tokens"], small["thinking"]["budget_tokens"]) == (4000, 2000)
    assert "thinking" not in body_of(request(ask, effort="high", max_output_tokens=1500), "claude-sonnet-4-5")


def test_a_budget_waits_for_the_next_turn_when_another_model_made_the_open_calls() -> None:
    ask = UserMessage(id="u", text="hi")
    call = AssistantMessage(id="a", calls=(ToolCall("c", "read", "{}"),))
    result = ToolResult(id="r", call_id="c", tool="read", status="ok", text="x")
    assert "thinking" not in body_of(request(ask, call, result, effort="high"), "claude-sonnet-4-5")
    own = msgspec.structs.replace(call, reasoning=(Reasoning("hm", "s", "anthropic"),))
    assert "thinking" in body_of(request(ask, own, result, effort="high"), "claude-sonnet-4-5")
    assert "thinking" in body_of(
        request(ask, call, result, AssistantMessage(id="b", text="x"), ask, effort="high"), "claude-sonnet-4-5"
    )
    assert "thinking" in body_of(request(ask, call, result, effort="high"), "claude-opus-4-8")


def test_the_longest_answer_is_always_told() -> None:
    ask = UserMessage(id="u", text="hi")
    assert body_of(request(ask))["max_tokens"] == 64_000
    assert body_of(request(ask), most=None)["max_tokens"] == 32_000
    assert body_of(request(ask), "claude-3-haiku-20240307", most=None)["max_tokens"] == 4096
    assert body_of(request(ask), max_output_tokens=8192)["max_tokens"] == 8192
    assert body_of(request(ask, max_output_tokens=100), max_output_tokens=8192)["max_tokens"] == 100


def test_what_was_learnt_is_left_out() -> None:
    body = body_of(request(effort="high"), refused=("images", "reasoning", "effort", "cache_marks"))
    kinds = {block["type"] for message in body["messages"] for block in message["content"]}
    assert kinds == {"text", "tool_use", "tool_result"}
    assert not {"thinking", "output_config"} & body.keys() and "cache_control" not in json.dumps(body)
    assert "left out: this model does not accept images" in json.dumps(body)
    bound = body_of(request(), refused=("prefix",))["thinking"]
    assert bound["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}


@pytest.mark.parametrize(
    ("base_url", "path"),
    [
        ("https://api.anthropic.com", "/v1/messages"),
        ("https://gateway/v1", "/messages"),
        ("https://gateway/v1/", "/messages"),
        ("https://api.deepseek.com/anthropic", "/v1/messages"),
    ],
)
def test_the_address(base_url: str, path: str) -> None:
    assert AnthropicDialect(route(base_url=base_url), ModelInfo("x")).path == path


def test_headers() -> None:
    given = msgspec.structs.replace(route(), api_key="k")
    headers = dict(AnthropicDialect(given, ModelInfo("x")).headers())
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("k", "2023-06-01")
    assert "anthropic-beta" in headers
    other = AnthropicDialect(route(provider="mine"), ModelInfo("x")).headers()
    assert dict(other) == {"anthropic-version": "2023-06-01"}


def test_every_model_has_a_row() -> None:
    assert thinking_of("claude-next-9").kind == "adaptive" and longest_answer("whatever") == 32_000
    assert {thinking_of(name).kind for name in ("claude-2.1", "claude-instant-1")} == {"none"}


@each_row(
    ("model", "chars", "most"),
    [
        ("claude-sonnet-4-20250514", 400, 64_000),
        ("claude-sonnet-4-20250514", 150_000 * 4, 32_768),
        ("claude-sonnet-4-20250514", 160_000 * 4, 32_768),
        ("claude-opus-4-1", 170_000 * 4, 16_384),
        ("claude-3-7-sonnet-20250219", 199_900 * 4, 1024),
        ("claude-3-7-sonnet-20250219", 300_000 * 4, 1024),
        ("claude-sonnet-4-5-20250929", 199_000 * 4, 64_000),
        ("claude-haiku-4-5", 199_000 * 4, 64_000),
        ("claude-opus-4-8", 199_000 * 4, 64_000),
        ("claude-sonnet-5-5", 199_000 * 4, 64_000),
        ("glm-5", 199_000 * 4, 64_000),
    ],
)
def test_prompt_and_longest_answer_fit_the_window_where_they_must(model: str, chars: int, most: int) -> None:
    info = ModelInfo(f"anthropic/{model}", context_window=200_000, max_output_tokens=64_000)
    dialect = AnthropicDialect(route(model), info)
    picture = msgspec.structs.replace(PICTURE, data="A" * 4_000_000)
    asked = request(UserMessage(id="u", text="x" * chars, images=(picture,)), effort="high")
    body = dialect.write(asked, LearnedLimits()).body
    assert body["max_tokens"] == most
    assert body.get("thinking", {}).get("budget_tokens", 0) < most


def test_without_a_known_window_the_longest_answer_stays() -> None:
    asked = request(UserMessage(id="u", text="x" * 900_000))
    assert body_of(asked, "claude-sonnet-4-20250514")["max_tokens"] == 64_000
