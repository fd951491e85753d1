"""Convert a neutral request to the body of an Anthropic Messages call.

Pure and deterministic: apart from the cache marks, the same message always becomes the same bytes, and `messages`
is the last key, so that a body without its closing brackets is a byte prefix of the next one.
"""

import re
from typing import Any, Literal

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import (
    AssistantMessage,
    Image,
    Message,
    Reasoning,
    ToolCall,
    ToolResult,
    UserMessage,
)
from agent_cli.protocol.usage import CHARS_PER_TOKEN

from ...types.base import LearnedLimits, ModelInfo, ModelRequest, takes_pictures
from ...types.json import Json
from ...types.provider_table import ImageLimits, Route
from ..dialect import EncodedRequest, known_effort
from ..images import sendable_images
from ..part_cache import PartCache
from ..parts import in_order, joined, object_text, plain_id, plain_name


class Thinking(msgspec.Struct, frozen=True):
    """Thinking controls of a family of models."""

    kind: Literal["none", "budget", "adaptive"]
    """`budget`: a number of tokens. `adaptive`: the model decides, guided by an effort."""
    efforts: tuple[str, ...] = ()
    """Supported efforts; others are mapped to the nearest lower one."""
    by_default: bool = False
    """True if it thinks unless told otherwise, without showing it unless asked."""
    off: Literal["disabled", "between_tools", ""] = "disabled"
    """The type that switches thinking off; empty if it cannot be. `between_tools` leaves the short notes between
    tool calls."""


_ALL = ("low", "medium", "high", "xhigh", "max")
_FAMILIES: tuple[tuple[str, Thinking], ...] = (
    (r"haiku-5", Thinking("adaptive", _ALL, by_default=True)),
    (r"sonnet-5-5", Thinking("adaptive", _ALL, by_default=True, off="between_tools")),
    (r"fable|mythos|(opus|sonnet)-5-[1-9]", Thinking("adaptive", _ALL, by_default=True, off="")),
    (r"(opus|sonnet)-5", Thinking("adaptive", _ALL, by_default=True)),
    (r"opus-4-[78]", Thinking("adaptive", _ALL)),
    (r"(opus|sonnet)-4-6", Thinking("adaptive", ("low", "medium", "high", "max"))),
    (r"(opus|sonnet|haiku)-4|claude-3-7", Thinking("budget")),
    (r"claude-(instant|[123])", Thinking("none")),
    (r"claude-", Thinking("adaptive", _ALL)),
    (r"", Thinking("budget")),
)
"""Patterns of model names, first match wins; the last row is for other vendors' models with this format.

Sources: Anthropic's documentation of thinking, effort and the migration guides of each model.
"""

BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 24_576, "max": 32_000}
"""Tokens for each effort, for models that take a budget."""
LEAST_BUDGET = 1024

_ANSWERS: tuple[tuple[str, int], ...] = (
    (r"claude-3-5", 8192),
    (r"claude-(instant|2|3-(haiku|sonnet|opus))", 4096),
    (r"", 32_000),
)
"""Maximum answer length for models missing from the catalogue, in tokens. A value that is too large is refused
with the limit named."""

_MUST_FIT = lazy_regex(r"claude-(instant|[123])|(opus|sonnet|haiku)-4(?!-?[5-9](?!\d))")
"""Models before Claude 4.5, which refuse a request if prompt and maximum answer together exceed the window; newer
ones end the answer when the window is full."""


def must_fit(model: str) -> bool:
    """Return True if prompt and maximum answer must fit the window together."""
    return _MUST_FIT.search(model.lower().replace(".", "-")) is not None


def thinking_of(model: str) -> Thinking:
    """Return how a model's thinking is controlled."""
    name = model.lower().replace(".", "-")
    return next(thinking for pattern, thinking in _FAMILIES if re.search(pattern, name))


def longest_answer(model: str) -> int:
    """Return the maximum answer length in tokens if nothing else is known."""
    name = model.lower().replace(".", "-")
    return next(tokens for pattern, tokens in _ANSWERS if re.search(pattern, name))


_MARK = {"type": "ephemeral"}
_NOTHING = "[no output]"
_PICTURE_CHARS = 1600 * CHARS_PER_TOKEN
_LEAST = 1024
"""Minimum answer length requested, in tokens, however full the window is."""
_THOUGHTS = ("thinking", "redacted_thinking")


class _Entry:
    """An entry of `messages`: blocks of one role, each with the id of its message."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.blocks: list[Json] = []
        self.sources: list[str] = []

    def add(self, blocks: list[Json], source: str) -> None:
        self.blocks += blocks
        self.sources += [source] * len(blocks)


def messages_body(
    route: Route,
    info: ModelInfo,
    request: ModelRequest,
    learned: LearnedLimits,
    kept: PartCache[Message, list[Json]],
) -> EncodedRequest:
    """Return the body, and the message id of each entry and block of its `messages`; `kept` caches the parts
    written for the previous request."""
    entries = _entries(request, route, learned, kept)
    max_tokens = _fitting(_max_tokens(route, info, request, learned), route, info, request, entries)
    body: Json = {"model": route.model, "stream": True, "max_tokens": max_tokens}
    if not {"effort", "begun"} & set(learned.refused):
        body.update(_thinking(thinking_of(route.model), request.effort, max_tokens, entries, learned))
    if request.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system}]
    body["messages"] = [{"role": entry.role, "content": entry.blocks} for entry in entries]
    if request.tools and "tool_choice" not in learned.refused:  # after the messages, which stay a prefix that way
        if not request.may_call:
            body["tool_choice"] = {"type": "none"}
        elif request.must_call and body.get("thinking", {"type": "disabled"})["type"] == "disabled":
            body["tool_choice"] = {"type": "tool", "name": request.must_call}  # refused together with thinking
    if request.answer_schema is not None:
        _hold_to_schema(body, request, route, learned)
    if "cache_marks" not in learned.refused:
        _mark(body)
    return EncodedRequest(
        body,
        tuple(entry.sources[0] for entry in entries),
        tuple(tuple(entry.sources) for entry in entries),
    )


def _hold_to_schema(body: Json, request: ModelRequest, route: Route, learned: LearnedLimits) -> None:
    from ..answer_format import answer_format

    form = answer_format(request, route.quirks, learned)
    if form is not None and form.closed is not None:
        schema = {"type": "json_schema", "schema": form.closed}
        body["output_config"] = {**body.get("output_config", {}), "format": schema}


def _max_tokens(route: Route, info: ModelInfo, request: ModelRequest, learned: LearnedLimits) -> int:
    known = info.max_output_tokens or longest_answer(route.model)
    wanted = request.max_output_tokens or known
    return min(wanted, learned.max_output_tokens or wanted)


def _fitting(max_tokens: int, route: Route, info: ModelInfo, request: ModelRequest, entries: list[_Entry]) -> int:
    """Return the longest answer that fits the window together with the prompt, for models that otherwise refuse
    the request. Halved until it fits, so that it rarely changes as the conversation grows."""
    window = info.context_window
    if window is None or not must_fit(route.model):
        return max_tokens
    tools = sum(_chars([tool.name, tool.description, tool.parameters]) for tool in request.tools)
    chars = len(request.system) + tools + sum(_chars(entry.blocks) for entry in entries)
    left = window - chars // CHARS_PER_TOKEN
    return max_tokens if max_tokens <= left else min(max_tokens, max(_LEAST, 1 << max(left, 1).bit_length() - 1))


def _chars(value: Any) -> int:
    """Return the approximate size of a part of the body in characters of text."""
    match value:
        case {"type": "image"}:
            return _PICTURE_CHARS
        case dict():
            return sum(len(key) + _chars(item) for key, item in value.items())
        case list():
            return sum(map(_chars, value))
        case str():
            return len(value)
        case msgspec.Raw():
            return len(bytes(value))
    return 1


def _thinking(
    thinking: Thinking, wanted: str, max_tokens: int, entries: list[_Entry], learned: LearnedLimits
) -> Json:
    """Return the fields that control thinking; empty leaves it to the provider."""
    if thinking.kind == "adaptive":
        return _adaptive(thinking, wanted, learned)
    budget = min(BUDGETS.get(wanted, 0), max_tokens // 2)
    if thinking.kind == "none" or budget < LEAST_BUDGET or not _may_start_thinking(entries):
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _adaptive(thinking: Thinking, wanted: str, learned: LearnedLimits) -> Json:
    binding = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    shown = {"type": "adaptive", "display": "summarized"} | (binding if "prefix" in learned.refused else {})
    if wanted == "none" and thinking.off:
        return {"thinking": {"type": thinking.off}} if thinking.by_default else {}
    effort = known_effort(wanted, learned.efforts or thinking.efforts)
    if effort:
        return {"thinking": shown, "output_config": {"effort": effort}}
    return {"thinking": shown} if thinking.by_default else {}


def _may_start_thinking(entries: list[_Entry]) -> bool:
    """Return True if thinking may be enabled with a budget: the answer whose calls are in progress must start with
    a thinking block, which another provider's answer does not."""
    at = len(entries) - 1
    while at > 1 and entries[at].blocks[0]["type"] == "tool_result":
        at -= 2
    return at == len(entries) - 1 or entries[at + 1].blocks[0]["type"] in _THOUGHTS


def _entries(
    request: ModelRequest, route: Route, learned: LearnedLimits, kept: PartCache[Message, list[Json]]
) -> list[_Entry]:
    """Return the conversation in alternating roles: consecutive messages of one role become one entry."""
    limits = route.quirks.images if takes_pictures(learned) else None
    reasoning = "reasoning" not in learned.refused
    entries: list[_Entry] = []
    written = kept.of(
        request.messages,
        (limits, reasoning),
        lambda message: _blocks(message, route.provider, limits, reasoning=reasoning),
    )
    for message, blocks in zip(request.messages, written, strict=True):
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        if not blocks:
            continue
        if not entries or entries[-1].role != role:
            entries.append(_Entry(role))
        entries[-1].add(blocks, message.id)
    return entries


def _blocks(message: Message, provider: str, limits: ImageLimits | None, *, reasoning: bool) -> list[Json]:
    match message:
        case UserMessage():
            return _content(joined(message.lead, message.text), message.images, limits)
        case AssistantMessage():
            return [_part(part) for part in in_order(message, provider, reasoning=reasoning)]
        case ToolResult():
            content = _content(message.text, message.images, limits)
            result: Json = {"type": "tool_result", "tool_use_id": plain_id(message.call_id)}
            if message.status == "failed":
                result["is_error"] = True
            result["content"] = content or _NOTHING
            return [result]


def _content(text: str, images: tuple[Image, ...], limits: ImageLimits | None) -> list[Json]:
    """Return a text block, unless blank, and image blocks."""
    kept, text = sendable_images(images, text, limits)
    blocks: list[Json] = [{"type": "text", "text": text}] if text.strip() else []
    for image in kept:
        source = {"type": "base64", "media_type": image.media_type, "data": image.data}
        blocks.append({"type": "image", "source": source})
    return blocks


def _part(part: str | Reasoning | ToolCall) -> Json:
    match part:
        case str():
            return {"type": "text", "text": part}
        case Reasoning(redacted=True):
            return {"type": "redacted_thinking", "data": part.signature}
        case Reasoning():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature}
        case ToolCall():
            arguments: Any = msgspec.Raw(object_text(part.arguments).encode())
            return {
                "type": "tool_use", "id": plain_id(part.id), "name": plain_name(part.name), "input": arguments,
            }  # fmt: skip


def _mark(body: Json) -> None:
    """Mark up to four places for caching: the tools, the system prompt, and the last two user messages, so that
    the content cached under the older mark is found again."""
    for name in ("tools", "system"):
        if body.get(name):
            body[name][-1] = body[name][-1] | {"cache_control": _MARK}
    asked = [message for message in body["messages"] if message["role"] == "user"]
    for message in asked[-2:]:
        blocks = message["content"]
        message["content"] = [*blocks[:-1], blocks[-1] | {"cache_control": _MARK}]
