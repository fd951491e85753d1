"""Parts of an answer that is sent back, in their original order, with ids and names any provider accepts. Shared
because the formats differ only in how they encode the parts."""

import hashlib
import re
from collections.abc import Iterator

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import AssistantMessage, Reasoning, ToolCall

Part = str | Reasoning | ToolCall

_PLAIN = lazy_regex(r"[a-zA-Z0-9_-]{1,64}")
_NAME_CHARS = 64


def in_order(message: AssistantMessage, provider: str, *, reasoning: bool = True) -> list[Part]:
    """Return text, reasoning and calls of an answer in their original order.

    Reasoning is kept if `provider` signed it and something follows it: providers refuse a block whose answer is
    missing. Blank text is omitted, because they refuse that too.
    """
    parts: list[Part] = []
    text_at = calls_at = 0
    kept = [block for block in message.reasoning if block.signature and block.provider == provider]
    for block in kept if reasoning else ():
        parts += _text(message.text[text_at : max(text_at, block.after_text)])
        parts += message.calls[calls_at : max(calls_at, block.after_calls)]
        text_at, calls_at = max(text_at, block.after_text), max(calls_at, block.after_calls)
        parts.append(block)
    parts += _text(message.text[text_at:])
    parts += message.calls[calls_at:]
    while parts and isinstance(parts[-1], Reasoning):
        parts.pop()
    return parts


def plain_id(call_id: str) -> str:
    """Return an id of at most 64 letters, digits, `_` and `-`; the same id is always mapped to the same result."""
    return call_id if _PLAIN.fullmatch(call_id) else f"call_{digest(call_id)}"


def plain_name(name: str) -> str:
    """Return a tool name in the same characters: models sometimes call tools with impossible names."""
    return name if _PLAIN.fullmatch(name) else re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:_NAME_CHARS] or "unnamed"


def joined(*texts: str) -> str:
    """Join the texts that are not blank with an empty line between them."""
    return "\n\n".join(text for text in texts if text.strip())


def digest(text: str) -> str:
    """Return 24 letters and digits that stand for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _text(text: str) -> Iterator[str]:
    if text.strip():
        yield text


def object_text(arguments: str) -> str:
    """Return the arguments unchanged if they are a JSON object, else an empty object."""
    try:
        is_object = isinstance(decode_json(arguments), dict)
    except msgspec.DecodeError:
        is_object = False
    return arguments if is_object else "{}"
