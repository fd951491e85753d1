"""The schema of an answer on the wire of each format: what is sent, when it is not, and when it is refused."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from agent_cli.config.schema import Config, Provider
from agent_cli.model.catalog.server_query import CapabilityProbe
from agent_cli.model.http_model import NativeModel
from agent_cli.model.routing import open_model
from agent_cli.model.types.base import Adjusted, LearnedLimits, ModelEvent, ModelRequest, TextPiece, ToolSpec
from agent_cli.model.types.info import ModelInfo
from agent_cli.model.types.provider_table import PROVIDERS, Quirks, Route
from agent_cli.model.wire.anthropic.dialect import AnthropicDialect
from agent_cli.model.wire.chat.dialect import ChatDialect
from agent_cli.model.wire.chat.ollama import OllamaDialect
from agent_cli.model.wire.dialect import Dialect
from agent_cli.model.wire.responses.dialect import ResponsesDialect
from agent_cli.protocol.messages import UserMessage
from tests.model.server import Reply, Server
from tests.rows import each_row

TOOL = ToolSpec(
    "read", "Reads.", {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
)
OPEN: dict[str, Any] = {
    "type": "object",
    "properties": {"risk": {"enum": ["low", "high"]}, "why": {"type": "string"}},
    "required": ["risk", "why"],
}
CLOSED: dict[str, Any] = {
    **OPEN,
    "properties": {"risk": {"enum": ["low", "high"], "type": "string"}, "why": {"type": "string"}},
    "additionalProperties": False,
}
OPTIONAL = {**OPEN, "required": ["risk"]}
BOUND = {**CLOSED, "properties": {"risk": {"type": "integer", "minimum": 1}}, "required": ["risk"]}
WIRES = ("chat", "responses", "anthropic")


class Verdict(msgspec.Struct):
    safe: bool
    reasons: list[str]


def ask(schema: dict[str, Any], *, tools: Sequence[ToolSpec] = (TOOL,), may_call: bool = True) -> ModelRequest:
    messages = (UserMessage(id="u", text="hi"),)
    return ModelRequest("s", messages, tuple(tools), may_call=may_call, answer_schema=schema, session_id="s")


def dialect(wire: str, quirks: Quirks, url: str = "http://x/v1") -> Dialect:
    if wire == "ollama":
        route = Route("ollama/q", "ollama", "q", "ollama_chat", url, quirks=quirks)
        return OllamaDialect(route, CapabilityProbe(ModelInfo("ollama/q")))
    if wire == "anthropic":
        route = Route("anthropic/m", "anthropic", "m", "anthropic_messages", url, "key", quirks=quirks)
        return AnthropicDialect(route, ModelInfo(route.name))
    route = Route("openai/m", "openai", "m", "chat_completions", url, "key", quirks=quirks)
    return ChatDialect(route) if wire == "chat" else ResponsesDialect(route, ModelInfo(route.name))


BESIDE = Quirks(schema_beside_tools=True)


def sent(wire: str, request: ModelRequest, quirks: Quirks = BESIDE) -> Any:
    """Return what the body of a request has for the schema; None for nothing."""
    body = dialect(wire, quirks).write(request, LearnedLimits()).body
    match wire:
        case "chat":
            return body.get("response_format")
        case "responses":
            return body.get("text")
        case "anthropic":
            return body.get("output_config")
    return body.get("format")


def test_the_schema_has_the_shape_of_each_format() -> None:
    named = {"name": "answer", "schema": CLOSED, "strict": True}
    assert sent("chat", ask(OPEN)) == {"type": "json_schema", "json_schema": named}
    assert sent("responses", ask(OPEN)) == {"format": {"type": "json_schema", **named}}
    assert sent("anthropic", ask(OPEN)) == {"format": {"type": "json_schema", "schema": CLOSED}}
    assert sent("ollama", ask(OPEN, tools=())) == OPEN


@each_row(
    ("schema", "strict", "closed"),
    [
        (OPEN, True, CLOSED),
        (OPTIONAL, False, {**CLOSED, "required": ["risk"]}),
        (BOUND, False, None),
        ({**OPEN, "additionalProperties": {"type": "string"}}, False, None),
        ({"type": "object"}, False, None),
        ({**OPEN, "properties": {"why": {}}, "required": ["why"]}, False, ...),
        ({**OPEN, "properties": {"why": {"const": 1}}, "required": ["why"]}, False, ...),
        ({**OPEN, "properties": {"why": {"type": "array", "items": OPEN}}, "required": ["why"]}, True, ...),
        (
            {**OPEN, "properties": {"why": {"anyOf": [OPTIONAL, {"type": "null"}]}}, "required": ["why"]},
            False,
            ...,
        ),
        ({**OPEN, "properties": {"risk": True}, "required": ["risk"]}, False, None),
    ],
)
def test_only_a_schema_that_fits_is_strict(schema: dict[str, Any], strict: bool, closed: Any) -> None:
    form = sent("chat", ask(schema))["json_schema"]
    assert form["strict"] is strict
    assert strict or form["schema"] == schema  # nothing else is changed
    anthropic = sent("anthropic", ask(schema))
    if closed is not ...:
        assert anthropic == (closed and {"format": {"type": "json_schema", "schema": closed}})


@each_row("wire", ["chat", "responses", "anthropic"])
@each_row("schema", [OPEN, OPTIONAL, BOUND, {"type": "object", "properties": {"why": {"const": 1}}}])
async def test_a_provider_takes_what_is_sent(wire: str, schema: dict[str, Any]) -> None:
    async with Server(Reply(text="{}")) as server:  # which checks the request as the provider does
        url = server.url.removesuffix("/v1") if wire == "anthropic" else server.url
        spoken = dialect(wire, BESIDE, url)
        model = NativeModel(spoken._route, ModelInfo(spoken._route.name), spoken)
        assert text(await events(model, ask(schema))) == "{}"
        await model.aclose()
    assert [request.complaint for request in server.requests] == [""]


def test_the_schema_of_a_type_has_its_parts_at_the_root() -> None:
    form = sent("chat", ask(msgspec.json.schema(Verdict)))["json_schema"]
    assert form["strict"] and form["schema"]["type"] == "object"
    assert form["schema"]["additionalProperties"] is False and "Verdict" in form["schema"]["$defs"]


@pytest.mark.parametrize("wire", [*WIRES, "ollama"])
def test_a_schema_of_no_object_is_left_to_words(wire: str) -> None:
    assert sent(wire, ask({"type": "array", "items": OPEN}, tools=())) is None


@pytest.mark.parametrize("wire", [*WIRES, "ollama"])
def test_a_server_that_would_not_call_tools_then_gets_it_only_where_none_may_be_called(wire: str) -> None:
    assert sent(wire, ask(OPEN), Quirks()) is None
    assert sent(wire, ask(OPEN, may_call=False), Quirks()) is not None
    assert sent(wire, ask(OPEN, tools=()), Quirks()) is not None


@pytest.mark.parametrize("wire", WIRES)
def test_requests_of_a_turn_differ_in_nothing_but_their_messages(wire: str) -> None:
    one = ask(OPEN)
    two = msgspec.structs.replace(one, messages=(*one.messages, UserMessage(id="v", text="more")))
    bodies = [dialect(wire, BESIDE).write(each, LearnedLimits()).body for each in (one, two)]
    for body in bodies:
        body.pop("messages" if wire != "responses" else "input")
    assert bodies[0] == bodies[1]


async def test_effort_and_schema_go_together() -> None:
    request = msgspec.structs.replace(ask(OPEN), effort="low")
    route = Route("anthropic/claude-opus-4-8", "anthropic", "claude-opus-4-8", "anthropic_messages", quirks=BESIDE)
    body = AnthropicDialect(route, ModelInfo(route.name)).write(request, LearnedLimits()).body
    assert body["output_config"].keys() == {"effort", "format"}


REFUSALS = {
    "chat": (
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
        "This response_format type is unavailable now",
        "Cannot use custom grammar constraints with tools.",
        "Function calling with a response mime type: 'application/json' is unsupported",
        "Invalid schema for response_format 'answer': In context=(), 'additionalProperties' is required to be supplied and to be false.",
    ),
    "responses": (
        "Unknown parameter: 'text'.",
        "Invalid parameter: 'text.format' of type 'json_schema' is not supported with this model.",
        "Invalid schema for response_format 'answer': In context=(), 'additionalProperties' is required to be supplied and to be false.",
    ),
    "anthropic": (
        "output_config: Extra inputs are not permitted",
        "output_config.format: Extra inputs are not permitted",
        "'claude-3-5-haiku' does not support output format. Structured outputs are not supported by this model.",
        "output_config.format.schema: For 'integer' type, property 'minimum' is not supported",
    ),
}


@each_row(("wire", "words"), [(wire, words) for wire, all_words in REFUSALS.items() for words in all_words])
async def test_a_refused_schema_is_left_out_and_the_call_goes_on(wire: str, words: str) -> None:
    refusal = Reply(
        status=400, body={"type": "error", "error": {"type": "invalid_request_error", "message": words}}
    )
    async with Server(refusal, Reply(text="{}"), Reply(text="{}")) as server:
        url = server.url.removesuffix("/v1") if wire == "anthropic" else server.url
        spoken = dialect(wire, BESIDE, url)
        model = NativeModel(spoken._route, ModelInfo(spoken._route.name), spoken)
        first = await events(model, ask(OPEN))
        again = await events(model, ask(OPEN))
        await model.aclose()
    bodies = [request.body for request in server.requests]
    field = {"chat": "response_format", "responses": "text", "anthropic": "output_config"}[wire]
    assert [field in body for body in bodies] == [True, False, False]
    assert [body.get("tools") for body in bodies[1:]] == [bodies[0]["tools"]] * 2  # nothing else is left out
    assert any(isinstance(event, Adjusted) for event in first) and not any(
        isinstance(each, Adjusted) for each in again
    )
    assert text(first) == text(again) == "{}"
    assert not model._recall().refused or model._recall().refused == ("answer_schema",)


async def test_another_refusal_leaves_the_schema_in() -> None:
    refusal = Reply(status=400, body={"error": {"message": "Unsupported parameter: 'stream_options'"}})
    async with Server(refusal, Reply(text="{}")) as server:
        spoken = dialect("chat", BESIDE, server.url)
        model = NativeModel(spoken._route, ModelInfo("openai/m"), spoken)
        assert text(await events(model, ask(OPEN))) == "{}"
        await model.aclose()
    assert ["response_format" in request.body for request in server.requests] == [True, True]


@each_row(
    ("name", "expected"),
    [
        ("openai/gpt-5.6", True), ("anthropic/claude-sonnet-5-5", True), ("xai/grok-4.5", False),
        ("gemini/gemini-3.1-pro-preview", True), ("gemini/gemini-2.5-pro", False), ("deepseek/deepseek-v4-pro", False),
        ("ollama/q", False), ("hosted_vllm/q", False),
    ],
)  # fmt: skip
async def test_which_providers_take_it_beside_tools(name: str, expected: bool) -> None:
    provider = name.partition("/")[0]
    key = dict.fromkeys(PROVIDERS[provider].key_vars, "x")
    for base_url, takes in (("", expected), ("http://127.0.0.1:9/v1", False)):
        config = Config(providers={provider: Provider(base_url=base_url)} if base_url else {})
        model = await open_model(name, config, key)
        assert isinstance(model, NativeModel)
        assert model.dialect._route.quirks.schema_beside_tools is takes, base_url
        await model.aclose()


async def events(model: NativeModel, request: ModelRequest) -> list[ModelEvent]:
    return [event async for event in model.stream(request)]


def text(received: list[ModelEvent]) -> str:
    return "".join(event.text for event in received if isinstance(event, TextPiece))
