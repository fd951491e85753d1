"""A second opinion on the wire: what the providers' own clients say of the bodies we write, for hundreds of
random histories with every kind of fault in them."""

import json
import random
from collections.abc import Iterator
from pkgutil import resolve_name
from typing import Any

import pytest

from agent_cli.model.catalog.server_query import CapabilityProbe
from agent_cli.model.http_model import encode
from agent_cli.model.text_calls.prompt import as_text
from agent_cli.model.types.base import LearnedLimits, ModelInfo, ModelRequest, ToolSpec
from agent_cli.model.types.info import Facts
from agent_cli.model.types.provider_table import PROVIDERS, Route
from agent_cli.model.wire.anthropic.dialect import AnthropicDialect
from agent_cli.model.wire.chat.dialect import ChatDialect
from agent_cli.model.wire.chat.ollama import OllamaDialect
from agent_cli.model.wire.dialect import Dialect
from agent_cli.model.wire.responses.dialect import ResponsesDialect
from agent_cli.protocol.messages import (
    AssistantMessage,
    Attachment,
    Image,
    Reasoning,
    ToolCall,
    ToolResult,
    UserMessage,
)
from agent_cli.protocol.records import (
    AnyRecord,
    CompactionReverted,
    CompactionSaved,
    Marked,
    Quarantined,
    Shortened,
    TurnsRedone,
    TurnsUndone,
)
from agent_cli.protocol.usage import EFFORTS
from agent_cli.session import history
from agent_cli.session.projection import Projection
from agent_cli.tools.registry import default_registry
from tests.fuzz import LEVEL
from tests.model.sdk_types import AS_TEXT, complaint

HISTORIES = 1_000 if LEVEL else 60
TOOLS = tuple(ToolSpec(each.name, each.description, each.parameters) for each in default_registry().specs())
PICTURE = Image(
    "image/png",
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
)
TEXTS = ("", " ", "hello", "é\u2028\ud800", "\x00\x1b[31m", "<tool_call>", "long " * 500)
ARGUMENTS = ("{}", '{"path": "a"}', '{"path": ', "[1]", "null", "", '{"a": {"b": [1, null, "é"]}}')
NAMES = ("read_file", "shell", "", "no such tool!", "x" * 90)


def a_call(chance: random.Random, used: list[str]) -> ToolCall:
    identifier = chance.choice((f"call_{len(used)}", f"tool:{len(used)}/é", f"{len(used)}" + "y" * 80, "twice"))
    used.append(identifier)
    signature = chance.choice(("", "c2ln"))
    return ToolCall(
        identifier, chance.choice(NAMES), chance.choice(ARGUMENTS), signature, chance.choice(("", "", "Bad."))
    )


def some_reasoning(chance: random.Random, provider: str) -> tuple[Reasoning, ...]:
    return tuple(
        Reasoning(
            chance.choice(("hm", "")), chance.choice(("", "c2ln")), chance.choice((provider, "other")),
            chance.random() < 0.3, chance.randrange(8), chance.randrange(3),
        )
        for _ in range(chance.randrange(3))
    )  # fmt: skip


def a_history(chance: random.Random, provider: str) -> list[AnyRecord]:
    """Records as sessions leave them behind: answers broken off, results lost or doubled, steers and hints between,
    turns undone, parts folded, shortened, dropped or refused."""
    records: list[AnyRecord] = []
    used: list[str] = []
    for number in range(chance.randrange(1, 14)):
        turn, identifier = f"t{number // 3}", f"m{number}"
        images = (PICTURE,) * (chance.random() < 0.2)
        if chance.random() < 0.45:
            origin: Any = chance.choice(("human", "human", "hint", "hook"))
            attached = (Attachment("a.txt", "<file>x</file>"),) * (chance.random() < 0.2)
            context = chance.choice(("", "Date: today"))
            text = chance.choice(TEXTS)
            records.append(
                UserMessage(
                    id=identifier, turn_id=turn, text=text, origin=origin, context=context, attachments=attached,
                    images=images,
                )
            )  # fmt: skip
            continue
        calls = tuple(a_call(chance, used) for _ in range(chance.randrange(4)))
        finish: Any = chance.choice(("stop", "tool_calls", "length", "interrupted"))
        records.append(
            AssistantMessage(
                id=identifier, turn_id=turn, text=chance.choice(TEXTS), calls=calls, finish=finish,
                reasoning=some_reasoning(chance, provider), model=f"{chance.choice((provider, 'other'))}/m",
            )
        )  # fmt: skip
        for call in calls:
            for _ in range(chance.choice((0, 1, 1, 1, 2))):
                status: Any = chance.choice(("ok", "failed", "denied", "cancelled", "unknown"))
                result = ToolResult(
                    id=f"r{len(records)}", turn_id=turn, call_id=call.id, tool=call.name, status=status,
                    text=chance.choice(TEXTS), images=images,
                )  # fmt: skip
                records.append(result)
    return records + list(changes(chance, records))


def changes(chance: random.Random, records: list[AnyRecord]) -> Iterator[AnyRecord]:
    """What a compaction, an undo, a person or a refusal did to it."""
    some = chance.choice(records)
    mark: Any = chance.choice(("pinned", "dropped"))
    possible: list[AnyRecord] = [
        CompactionSaved(id="fold", through=some.id, summary="So far.", kept=(chance.choice(records).id,)),
        CompactionReverted(id="unfold", fold_id="fold"),
        Shortened(
            id="short", call_ids=tuple(r.call_id for r in records if isinstance(r, ToolResult)), keep_chars=400
        ),
        Marked(id="mark", message_id=some.id, mark=mark),
        Quarantined(id="held", message_id=some.id, reason="no"),
        TurnsUndone(id="undo", turn_ids=(some.turn_id,)),
        TurnsRedone(id="redo", turn_ids=(some.turn_id,)),
    ]
    for each in possible:
        if chance.random() < 0.25:
            yield each


def a_request(chance: random.Random, provider: str) -> ModelRequest:
    messages = history.RepairedHistory().of(Projection(a_history(chance, provider)).visible())
    asked = ModelRequest(
        system=chance.choice(("", "Be good.")),
        messages=messages or (UserMessage(id="u", text="hi"),),
        tools=TOOLS[: len(TOOLS) if chance.random() < 0.02 else chance.randrange(2)],
        may_call=chance.random() < 0.8,
        effort=chance.choice(("", *EFFORTS)),
        max_output_tokens=chance.choice((None, 1_024)),
        session_id=chance.choice(("", "s" * 80)),
    )
    return as_text(asked) if chance.random() < 0.2 else asked


def route(name: str, wire: Any) -> Route:
    provider, _, model = name.partition("/")
    return Route(name, provider, model, wire, "http://x/v1", "k", quirks=PROVIDERS[provider].quirks)


GPT, CLAUDE = route("openai/gpt-5.5", "chat_completions"), route("anthropic/claude-opus-4-8", "anthropic_messages")
RESPONSES = route("openai/gpt-5.5", "openai_responses")
OLLAMA = route("ollama/qwen3", "ollama_chat")
INFO = ModelInfo("ollama/qwen3").plus(Facts("server", 32_768, images=True, reasoning=True))
_SCHEMA = frozenset({"additionalProperties", "minItems", "maxItems", "properties", "required", "default"})
_OLLAMA = {
    "ChatRequest": frozenset({"truncate", "shift"}),  # this, and the next two: of its server's own interface
    "ToolCall": frozenset({"id"}),
    "Message": frozenset({"tool_call_id"}),
    "Parameters": _SCHEMA,  # handed on to the model's template
    "Property": _SCHEMA,
    "Image": frozenset({AS_TEXT}),
}
_CHAT = {"ChatCompletionAssistantMessageParam": frozenset({"reasoning_content"})}  # DeepSeek, Kimi, GLM
_ANTHROPIC = {
    "ThinkingConfigAdaptiveParam": frozenset({"block_binding"}),  # named by its own refusal
    "InputSchemaTyped": _SCHEMA,
}
_RESPONSES = {"ResponseReasoningItemParam": frozenset({"-id"})}  # nothing is stored, so there are no ids
FORMATS: dict[str, tuple[Dialect, str, dict[str, frozenset[str]]]] = {
    "openai": (
        ChatDialect(GPT),
        "openai.types.chat.completion_create_params:CompletionCreateParamsStreaming",
        _CHAT,
    ),
    "anthropic": (
        AnthropicDialect(CLAUDE, ModelInfo(CLAUDE.name)),
        "anthropic.types.message_create_params:MessageCreateParamsStreaming",
        _ANTHROPIC,
    ),
    "responses": (
        ResponsesDialect(RESPONSES, ModelInfo(RESPONSES.name)),
        "openai.types.responses.response_create_params:ResponseCreateParamsStreaming",
        _RESPONSES,
    ),
    "ollama": (OllamaDialect(OLLAMA, CapabilityProbe(INFO)), "ollama._types:ChatRequest", _OLLAMA),
}
"""Its writer, the type of its client's parameters (imported by the tests: it takes seconds), and what is documented beyond those."""


def learnt(chance: random.Random, dialect: Dialect) -> LearnedLimits:
    if chance.random() < 0.5:
        return LearnedLimits()
    names = [each.name for each in dialect.fallbacks]
    return LearnedLimits(refused=tuple(name for name in names if chance.random() < 0.2 and name != "max_tokens"))


@pytest.mark.parametrize("wire", FORMATS)
def test_every_request_is_one_that_the_provider_s_own_client_could_send(wire: str) -> None:
    dialect, expected, extras = FORMATS[wire]
    chance = random.Random(f"{wire} histories")
    for number in range(HISTORIES):
        asked = a_request(chance, "openai" if wire == "responses" else wire)
        body = json.loads(encode(dialect.write(asked, learnt(chance, dialect)).body))
        assert not (why := complaint(body, resolve_name(expected), extras)), f"history {number}: {why}"


def places(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a body that is a part of the format, not a tool's own schema or arguments."""
    if isinstance(value, dict):
        yield value
        for name, inner in value.items():
            if name not in ("parameters", "input_schema", "arguments", "input", "options") or isinstance(
                inner, list
            ):
                yield from places(inner)
    for each in value if isinstance(value, list) else ():
        yield from places(each)


@pytest.mark.parametrize("wire", FORMATS)
def test_a_key_that_the_client_does_not_know_is_found_anywhere(wire: str) -> None:
    dialect, expected, extras = FORMATS[wire]
    messages = (
        UserMessage(id="u", text="look", images=(PICTURE,)),
        AssistantMessage(id="a", text="I look.", calls=(ToolCall("c", "read_file", "{}"),), model=f"{wire}/m"),
        ToolResult(id="r", call_id="c", tool="read_file", status="ok", text="x"),
    )
    body = json.loads(encode(dialect.write(ModelRequest("s", messages, TOOLS[:1]), LearnedLimits()).body))
    assert complaint(body, resolve_name(expected), extras) == ""
    found = list(places(body))
    assert len(found) >= 6
    for place in found:
        place["surprise"] = 1
        assert complaint(body, resolve_name(expected), extras), place
        del place["surprise"]
    del next(each for each in found if "role" in each)["role"]
    assert complaint(body, resolve_name(expected), extras)
