"""Convert a neutral request to the body of an OpenAI Responses call.

Pure and deterministic: the same message always becomes the same bytes, and `input` is the last key, so that a body
without its closing brackets is a byte prefix of the next one. Nothing is stored at the provider, so reasoning is
sent back as the encrypted items received: `Reasoning.signature` is the encrypted content, `Reasoning.text` the
summary. Item ids are omitted, since nothing could be looked up by them.
"""

from collections.abc import Iterator

from agent_cli.protocol.messages import (
    AssistantMessage,
    Image,
    Message,
    Reasoning,
    ToolCall,
    ToolResult,
    UserMessage,
)

from ...types.base import LearnedLimits, ModelInfo, ModelRequest, ToolSpec, takes_pictures
from ...types.json import Json
from ...types.provider_table import ImageLimits, Route
from ..dialect import EncodedRequest, known_effort
from ..images import sendable_images
from ..part_cache import PartCache
from ..parts import digest, in_order, joined, object_text, plain_id, plain_name
from ..strict_schema import strict_schema

_LEAST_OUTPUT = 16
"""In tokens; a lower limit is refused."""
_KEY_CHARS = 64


class KeptInput:
    """Cache of the parts written for the previous request."""

    def __init__(self) -> None:
        self.tools: PartCache[ToolSpec, Json] = PartCache()
        self.items: PartCache[Message, list[Json]] = PartCache()


def responses_body(
    route: Route, info: ModelInfo, request: ModelRequest, learned: LearnedLimits, kept: KeptInput
) -> EncodedRequest:
    """Return the body, and the message id of each item of its `input`; `kept` caches the parts written for the
    previous request."""
    body: Json = {"model": route.model, "stream": True, "store": False}
    if "include" not in learned.refused:
        body["include"] = ["reasoning.encrypted_content"]
    if request.session_id and "prompt_cache_key" not in learned.refused:
        key = request.session_id
        body["prompt_cache_key"] = key if len(key) <= _KEY_CHARS else digest(key)
    if request.max_output_tokens is not None:
        limit = min(request.max_output_tokens, learned.max_output_tokens or request.max_output_tokens)
        body["max_output_tokens"] = max(limit, _LEAST_OUTPUT)
    if reasoning := _reasoning(route, info, request, learned):
        body["reasoning"] = reasoning
    if request.tools:
        may_be_strict = "strict" not in learned.refused
        body["tools"] = kept.tools.of(request.tools, may_be_strict, lambda tool: _tool(tool, may_be_strict))
    if request.system.strip():
        body["instructions"] = request.system
    written = kept.items.of(request.messages, learned, lambda message: list(_items(message, route, learned)))
    pairs = [
        (message.id, item) for message, items in zip(request.messages, written, strict=True) for item in items
    ]
    body["input"] = [item for _, item in pairs]
    if request.tools and "tool_choice" not in learned.refused:  # after the messages, which stay a prefix that way
        if not request.may_call:
            body["tool_choice"] = "none"
        elif request.must_call:
            body["tool_choice"] = {"type": "function", "name": request.must_call}
    if request.answer_schema is not None:
        from ..answer_format import answer_format

        if form := answer_format(request, route.quirks, learned):
            body["text"] = {"format": {"type": "json_schema", **form.named()}}
    return EncodedRequest(body, tuple(source for source, _ in pairs))


def _tool(tool: ToolSpec, may_be_strict: bool) -> Json:
    strict = strict_schema(tool.parameters) if may_be_strict else None
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": strict or tool.parameters,
        "strict": strict is not None,
    }


def _reasoning(route: Route, info: ModelInfo, request: ModelRequest, learned: LearnedLimits) -> Json:
    reasoning: Json = {}
    known = learned.efforts or info.efforts or route.quirks.efforts
    effort = known_effort(request.effort, known)
    if effort and "effort" not in learned.refused:
        reasoning["effort"] = effort
    if "summary" not in learned.refused:
        reasoning["summary"] = "auto"
    return reasoning


def _items(message: Message, route: Route, learned: LearnedLimits) -> Iterator[Json]:
    limits = route.quirks.images if takes_pictures(learned) else None
    match message:
        case UserMessage():
            content = _content(joined(message.lead, message.text), message.images, limits)
            if content:
                yield {"type": "message", "role": "user", "content": content}
        case AssistantMessage():
            own = message.model.partition("/")[0] == route.provider and "phase" not in learned.refused
            phase = ("commentary" if message.calls else "final_answer") if own else ""
            for part in in_order(message, route.provider, reasoning="reasoning" not in learned.refused):
                yield _part(part, phase)
        case ToolResult():
            output = _content(message.text, message.images, limits) if message.images else message.text
            yield {"type": "function_call_output", "call_id": plain_id(message.call_id), "output": output}


def _content(text: str, images: tuple[Image, ...], limits: ImageLimits | None) -> list[Json]:
    """Return a text part, unless blank, and image parts."""
    kept, text = sendable_images(images, text, limits)
    parts: list[Json] = [{"type": "input_text", "text": text}] if text.strip() else []
    for image in kept:
        url = f"data:{image.media_type};base64,{image.data}"
        parts.append({"type": "input_image", "detail": "auto", "image_url": url})
    return parts


def _part(part: str | Reasoning | ToolCall, phase: str) -> Json:
    match part:
        case str():
            message: Json = {"type": "message", "role": "assistant"}
            if phase:
                message["phase"] = phase
            message["content"] = part  # parts of type `output_text` require the id of a stored message
            return message
        case Reasoning():
            summary = [{"type": "summary_text", "text": part.text}] if part.text else []
            return {"type": "reasoning", "summary": summary, "encrypted_content": part.signature}
        case ToolCall():
            return {
                "type": "function_call",
                "call_id": plain_id(part.id),
                "name": plain_name(part.name),
                "arguments": object_text(part.arguments),
            }
