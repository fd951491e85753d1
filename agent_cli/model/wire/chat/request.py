"""Convert a neutral request to the body of a Chat Completions call.

Pure and deterministic: the same message always becomes the same bytes, and `messages` is the last key, so that a
body without its closing brackets is a byte prefix of the next one. Fields outside the common schema are omitted
unless the provider's quirks require them.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import msgspec

from agent_cli.protocol.messages import AssistantMessage, Image, Message, ToolCall, ToolResult, UserMessage

from ...types.base import LearnedLimits, ModelRequest, ToolSpec, takes_pictures
from ...types.json import Json
from ...types.provider_table import Quirks, Route
from ..dialect import EncodedRequest, known_effort
from ..images import sendable_images
from ..part_cache import PartCache
from ..parts import digest, object_text, plain_name
from .reasoning_details import REASONING_FIELDS, sent_details

_NO_REASONING = " "
"""Placeholder for unknown reasoning. Providers that require the field refuse an empty one."""
_SWAPS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_ANSWERING = {("tool", "user"): "I have the results."}
_ALTERNATING = {**_ANSWERING, ("user", "user"): "[no answer]", ("assistant", "assistant"): "Continue."}
"""Text inserted between two messages of these roles."""
_CACHE_MARK = {"type": "ephemeral"}
_NO_SIGNATURE = "skip_thought_signature_validator"
"""Value Gemini accepts instead of a signature it never gave, as for a call by another model."""


def chat_body(
    route: Route, request: ModelRequest, learned: LearnedLimits, kept: PartCache[Message, Json] | None = None
) -> EncodedRequest:
    """Return the body, and the message id of each entry of its `messages`; `kept` caches the parts written for the
    previous request."""
    quirks = fitting(route.quirks, learned)
    body: Json = {"model": route.model, "stream": True}
    if "stream_options" not in learned.refused:
        body["stream_options"] = {"include_usage": True}
    if request.max_output_tokens is not None:
        longest = learned.max_output_tokens or request.max_output_tokens
        body[quirks.max_tokens_field] = min(request.max_output_tokens, longest)
    body.update(_effort(request.effort, quirks, learned))
    if request.tools:
        body["tools"] = [tool_json(tool) for tool in request.tools]
    pairs = list(chat_messages(request, quirks, route, kept, pictures=takes_pictures(learned)))
    if "system_role" in learned.refused:
        pairs = _without_system(pairs)
    if quirks.answers_results or quirks.alternates:
        pairs = list(_separated(pairs, quirks))
    messages = [message for _, message in pairs]
    if quirks.cache_marks and "claude" in route.model:
        mark_cached(messages)
    body["messages"] = messages
    if request.tools and "tool_choice" not in learned.refused:  # after the messages, which stay a prefix that way
        if not request.may_call:
            body["tool_choice"] = "none"
        elif request.must_call:
            body["tool_choice"] = {"type": "function", "function": {"name": request.must_call}}
    if request.answer_schema is not None:
        from ..answer_format import answer_format

        if form := answer_format(request, quirks, learned):
            body["response_format"] = {"type": "json_schema", "json_schema": form.named()}
    return EncodedRequest(body, tuple(source for source, _ in pairs))


def fitting(quirks: Quirks, learned: LearnedLimits) -> Quirks:
    """Return the quirks updated with learned limits."""
    if "max_tokens" in learned.refused:
        quirks = msgspec.structs.replace(quirks, max_tokens_field=_SWAPS[quirks.max_tokens_field])
    if "no_reasoning" in learned.refused:
        quirks = msgspec.structs.replace(quirks, reasoning_field="reasoning_content")
    if "reasoning" in learned.refused:
        quirks = msgspec.structs.replace(
            quirks, reasoning_field="", reasoning_details=False, echoes_reasoning=False
        )
    if "repeated_roles" in learned.refused:
        quirks = msgspec.structs.replace(quirks, alternates=True)
    return quirks


def _effort(wanted: str, quirks: Quirks, learned: LearnedLimits) -> Json:
    effort = known_effort(wanted, learned.efforts or quirks.efforts)
    if not effort or not quirks.effort_field or "effort" in learned.refused:
        return {}
    if quirks.effort_field == "reasoning":
        return {"reasoning": {"effort": effort}}
    return {quirks.effort_field: effort}


def tool_json(tool: ToolSpec) -> Json:
    """Return a tool as a function definition."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def chat_messages(
    request: ModelRequest,
    quirks: Quirks,
    route: Route,
    kept: PartCache[Message, Json] | None = None,
    *,
    pictures: bool = True,
) -> Iterator[tuple[str, Json]]:
    """Yield system prompt and conversation, each with its message id. Images of tool results follow in a user
    message after the last result, because a tool message can hold only text."""
    if request.system:
        yield "", {"role": "system", "content": request.system}
    shown: list[Image] = []
    source = ""
    written = (kept or PartCache()).of(
        request.messages,
        (quirks, route.name, pictures),
        lambda message: _message(message, quirks, route, pictures),
    )
    for message, sent in zip(request.messages, written, strict=True):
        if shown and not isinstance(message, ToolResult):
            yield source, _user("[images from the results above]", tuple(shown), quirks, pictures)
            shown = []
        yield message.id, sent
        if isinstance(message, ToolResult) and message.images:
            shown.extend(message.images)
            source = message.id
    if shown:
        yield source, _user("[images from the results above]", tuple(shown), quirks, pictures)


def _without_system(pairs: list[tuple[str, Json]]) -> list[tuple[str, Json]]:
    """Return the messages with the system prompt prepended to the first user message."""
    if len(pairs) < 2 or pairs[0][1]["role"] != "system" or pairs[1][1]["role"] != "user":
        return pairs
    (_, system), (source, first), *rest = pairs
    content = first["content"]
    whole = (
        f"{system['content']}\n\n{content}"
        if isinstance(content, str)
        else [{"type": "text", "text": system["content"]}, *content]
    )
    return [(source, {"role": "user", "content": whole}), *rest]


def _separated(pairs: Iterable[tuple[str, Json]], quirks: Quirks) -> Iterator[tuple[str, Json]]:
    """Yield the messages, inserting a short one between adjacent messages that the server wants separated. The
    insertion depends only on the preceding messages, so that each request stays a prefix of the next."""
    between = _ALTERNATING if quirks.alternates else _ANSWERING
    before = ""
    for source, message in pairs:
        if (text := between.get((before, message["role"]))) is not None:
            yield source, {"role": "user" if before == "assistant" else "assistant", "content": text}
        before = message["role"]
        yield source, message


def roles_repeat(messages: Sequence[Json]) -> bool:
    """Return True if adjacent messages have roles that some servers want separated."""
    roles = [message["role"] for message in messages]
    return any(pair in _ALTERNATING for pair in pairwise(roles))


def _message(message: Message, quirks: Quirks, route: Route, pictures: bool) -> Json:
    match message:
        case UserMessage():
            text = "\n\n".join(part for part in (message.lead, message.text) if part)
            return _user(text, message.images, quirks, pictures)
        case AssistantMessage():
            return _assistant(message, quirks, route)
        case ToolResult():
            return {
                "role": "tool",
                "tool_call_id": wire_id(message.call_id, quirks),
                "content": message.text,
            }


def _user(text: str, images: tuple[Image, ...], quirks: Quirks, pictures: bool) -> Json:
    images, text = sendable_images(images, text, quirks.images if pictures else None)
    if not images:
        return {"role": "user", "content": text}
    parts: list[Json] = [{"type": "text", "text": text}] if text else []
    for image in images:
        url = f"data:{image.media_type};base64,{image.data}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return {"role": "user", "content": parts}


def _assistant(message: AssistantMessage, quirks: Quirks, route: Route) -> Json:
    provider = route.provider
    sent: Json = {"role": "assistant", "content": message.text or None}
    if quirks.reasoning_field:
        own = "".join(block.text for block in message.reasoning if block.provider == provider)
        sent[quirks.reasoning_field] = own or _NO_REASONING
    elif quirks.echoes_reasoning and message.model == route.name:
        for block in message.reasoning:
            if block.provider == provider and block.field in REASONING_FIELDS:
                sent[block.field] = sent.get(block.field, "") + block.text
    if quirks.reasoning_details and message.model == route.name:  # a gateway's models cannot verify each other's
        sent |= sent_details(message.reasoning, provider)
    if message.calls:
        own_calls = message.model.partition("/")[0] == provider
        numbered = enumerate(message.calls)
        sent["tool_calls"] = [_call(call, quirks, own=own_calls, first=not place) for place, call in numbered]
    return sent


def _call(call: ToolCall, quirks: Quirks, *, own: bool, first: bool) -> Json:
    function = {"name": plain_name(call.name), "arguments": object_text(call.arguments)}
    sent: Json = {"id": wire_id(call.id, quirks), "type": "function", "function": function}
    if quirks.thought_signatures:
        signature = call.signature if own else ""
        if signature or first:
            sent["extra_content"] = {"google": {"thought_signature": signature or _NO_SIGNATURE}}
    return sent


def wire_id(call_id: str, quirks: Quirks) -> str:
    """Return an id that the provider accepts; the same id is always mapped to the same result."""
    if quirks.short_ids:
        plain = len(call_id) == 9 and call_id.isascii() and call_id.isalnum()
        return call_id if plain else digest(call_id)[:9]
    return call_id if len(call_id) <= quirks.longest_id else f"call_{digest(call_id)}"


def mark_cached(messages: list[Json]) -> None:
    """Mark the prompt for caching up to its newest message; only Claude needs this. The newest user message is
    marked too, because later content may be looked up under that mark again."""
    places = {0, len(messages) - 1, *[at for at, each in enumerate(messages) if each["role"] == "user"][-2:]}
    for place in places:
        message = messages[place]
        content = message.get("content")
        if message["role"] == "tool":
            messages[place] = message | {"cache_control": _CACHE_MARK}
        elif isinstance(content, str):
            marked = [{"type": "text", "text": content, "cache_control": _CACHE_MARK}]
            messages[place] = message | {"content": marked}
        elif content:
            messages[place] = message | {"content": [*content[:-1], content[-1] | {"cache_control": _CACHE_MARK}]}
