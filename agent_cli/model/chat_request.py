"""From a neutral request to the body of a Chat Completions call.

Pure and deterministic: the same message always becomes the same bytes, and `messages` is the last key, so
that a body without its closing brackets is a byte prefix of the next one. Fields outside the common
schema are left out, unless the provider's quirks ask for them.
"""

import hashlib
from typing import Any

import msgspec

from ..protocol.messages import AssistantMessage, Image, Message, ToolCall, ToolResult, UserMessage
from .base import ModelRequest, ToolSpec
from .provider_table import Quirks
from .surrogates import mended

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_NO_REASONING = " "
"""Stands for reasoning that is not known. Providers that want the field refuse an empty one."""

Json = dict[str, Any]


def chat_body(model: str, request: ModelRequest, quirks: Quirks, provider: str) -> Json:
    """The body as a JSON object.

    Args:
        model: name as the server knows it.
        request: what to send.
        quirks: how this server departs from the schema.
        provider: prefix whose own reasoning may be sent back.
    """
    body: Json = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    if request.max_output_tokens is not None:
        body[quirks.max_tokens_field] = request.max_output_tokens
    effort = known_effort(request.effort, quirks.efforts)
    if effort and quirks.effort_field == "reasoning":
        body["reasoning"] = {"effort": effort}
    elif effort and quirks.effort_field:
        body[quirks.effort_field] = effort
    if request.tools:
        body["tools"] = [tool_json(tool) for tool in request.tools]
        if not request.may_call:
            body["tool_choice"] = "none"
    body["messages"] = chat_messages(request, quirks, provider)
    return body


def encode(body: Json) -> bytes:
    """The body as UTF-8 JSON. Lone surrogates, which cannot be sent, become U+FFFD."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(_sendable(body))


def known_effort(effort: str, known: tuple[str, ...]) -> str:
    """The nearest effort at or below the wanted one that a provider knows, else its lowest; empty stays."""
    if effort not in _EFFORTS:
        return ""
    below = [name for name in _EFFORTS[: _EFFORTS.index(effort) + 1] if name in known]
    return below[-1] if below else known[0]


def tool_json(tool: ToolSpec) -> Json:
    """A tool as a function."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def chat_messages(request: ModelRequest, quirks: Quirks, provider: str) -> list[Json]:
    """System prompt and conversation. Pictures of tool results follow in a user message behind the last
    result, because a tool message holds text only."""
    messages: list[Json] = [{"role": "system", "content": request.system}] if request.system else []
    pictures: list[Image] = []
    for message in request.messages:
        if not isinstance(message, ToolResult) and pictures:
            messages.append(_user("[pictures of the results above]", tuple(pictures)))
            pictures = []
        messages.append(_message(message, quirks, provider))
        if isinstance(message, ToolResult):
            pictures.extend(message.images)
    if pictures:
        messages.append(_user("[pictures of the results above]", tuple(pictures)))
    return messages


def _message(message: Message, quirks: Quirks, provider: str) -> Json:
    match message:
        case UserMessage():
            text = "\n\n".join(part for part in (message.context, message.text) if part)
            return _user(text, message.images)
        case AssistantMessage():
            return _assistant(message, quirks, provider)
        case ToolResult():
            return {
                "role": "tool",
                "tool_call_id": _wire_id(message.call_id, quirks),
                "content": message.text,
            }


def _user(text: str, images: tuple[Image, ...]) -> Json:
    if not images:
        return {"role": "user", "content": text}
    parts: list[Json] = [{"type": "text", "text": text}] if text else []
    for image in images:
        url = f"data:{image.media_type};base64,{image.data}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return {"role": "user", "content": parts}


def _assistant(message: AssistantMessage, quirks: Quirks, provider: str) -> Json:
    sent: Json = {"role": "assistant", "content": message.text or None}
    if quirks.reasoning_field:
        own = "".join(block.text for block in message.reasoning if block.provider == provider)
        sent[quirks.reasoning_field] = own or _NO_REASONING
    if message.calls:
        sent["tool_calls"] = [_call(call, quirks) for call in message.calls]
    return sent


def _call(call: ToolCall, quirks: Quirks) -> Json:
    function = {"name": call.name, "arguments": object_text(call.arguments)}
    return {"id": _wire_id(call.id, quirks), "type": "function", "function": function}


def object_text(arguments: str) -> str:
    """The arguments as they are when they are a JSON object, else an empty one."""
    try:
        is_object = isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, UnicodeEncodeError):
        is_object = False
    return arguments if is_object else "{}"


def _wire_id(call_id: str, quirks: Quirks) -> str:
    """An id the provider takes; the same id always gives the same one."""
    if quirks.short_ids:
        plain = len(call_id) == 9 and call_id.isascii() and call_id.isalnum()
        return call_id if plain else hashlib.sha256(call_id.encode()).hexdigest()[:9]
    if len(call_id) <= quirks.longest_id:
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:24]}"


def _sendable(value: Any) -> Any:
    match value:
        case str():
            return mended(value)
        case dict():
            return {_sendable(key): _sendable(item) for key, item in value.items()}
        case list():
            return [_sendable(item) for item in value]
        case _:
            return value
