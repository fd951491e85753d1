"""Convert servers' responses from the protocol's JSON to our types."""

import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.messages import Image

from ..types.client import Elicitation, FormField
from ..types.offer import CallOutcome, PromptArgument, PromptDefinition, ResourceDefinition, ToolDefinition

_INSTRUCTION_BYTES = 2_048
_MAX_IMAGE_CHARS = 7_000_000
"""Length of the base64 text; 5 MB of data."""
_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def tool_of(given: Mapping[str, Any]) -> ToolDefinition:
    """Return a tool from an entry of `tools/list`."""
    return ToolDefinition(
        str(given.get("name", "")),
        str(given.get("title") or ""),
        str(given.get("description") or ""),
        dict(given.get("inputSchema") or {}),
        given.get("outputSchema"),
        dict(given.get("annotations") or {}),
    )


def prompt_of(given: Mapping[str, Any]) -> PromptDefinition:
    """Return a prompt from an entry of `prompts/list`."""
    arguments = tuple(
        PromptArgument(str(each.get("name", "")), str(each.get("description") or ""), each.get("required") is True)
        for each in given.get("arguments") or ()
    )
    return PromptDefinition(str(given.get("name", "")), str(given.get("description") or ""), arguments)


def resource_of(given: Mapping[str, Any]) -> ResourceDefinition:
    """Return a resource from an entry of `resources/list` or `resources/templates/list`."""
    return ResourceDefinition(str(given.get("uri") or given.get("uriTemplate") or ""))


def instructions_of(text: str | None) -> str:
    """Return a server's instructions for the model, cut to 2 KB."""
    return (text or "").encode()[:_INSTRUCTION_BYTES].decode("utf-8", "ignore")


def outcome_of(given: Mapping[str, Any]) -> CallOutcome:
    """Return the outcome of a `tools/call`."""
    texts: list[str] = []
    images: list[Image] = []
    content = given.get("content") or ()
    for block in content:
        _read_block(block, texts, images)
    structured = given.get("structuredContent")
    if structured is not None and not (content and _is_repeated(structured, content, texts)):
        texts.append(msgspec.json.encode(structured).decode())
    return CallOutcome("\n".join(texts), tuple(images), given.get("isError") is True)


def resource_outcome(given: Mapping[str, Any]) -> CallOutcome:
    """Return the outcome of a `resources/read`."""
    texts: list[str] = []
    images: list[Image] = []
    for each in given.get("contents") or ():
        _read_resource(each, texts, images)
    return CallOutcome("\n".join(texts), tuple(images))


def prompt_outcome(given: Mapping[str, Any]) -> CallOutcome:
    """Return the messages of a `prompts/get` as one text."""
    texts: list[str] = []
    images: list[Image] = []
    for message in given.get("messages") or ():
        found: list[str] = []
        _read_block(message.get("content") or {}, found, images)
        said = "\n".join(found)
        texts.append(f"[assistant] {said}" if message.get("role") == "assistant" else said)
    return CallOutcome("\n\n".join(texts), tuple(images))


def elicitation_of(given: Mapping[str, Any]) -> Elicitation:
    """Return a server's question from the parameters of `elicitation/create`."""
    if url := given.get("url"):
        return Elicitation(str(given.get("message", "")), url=str(url))
    schema = given.get("requestedSchema") or {}
    required, properties = _list(schema.get("required")), schema.get("properties")
    fields = tuple(
        _field(str(name), each if isinstance(each, Mapping) else {}, name in required)
        for name, each in (properties.items() if isinstance(properties, Mapping) else ())
    )
    return Elicitation(str(given.get("message", "")), fields)


def _field(name: str, schema: Mapping[str, Any], required: bool) -> FormField:
    items = schema.get("items")
    is_many = schema.get("type") == "array" and isinstance(items, Mapping)
    options = _options(items if is_many and isinstance(items, Mapping) else schema)
    kinds = {"number": "number", "integer": "integer", "boolean": "boolean"}
    kind: Any = kinds.get(str(schema.get("type")), "text")
    if options:
        kind = "choices" if is_many else "choice"
    default = schema.get("default")
    return FormField(
        name,
        str(schema.get("title") or ""),
        str(schema.get("description") or ""),
        kind,
        options,
        required,
        "" if default is None else _plain(default),
    )


def _options(schema: Mapping[str, Any]) -> tuple[str, ...]:
    titled = _list(schema.get("oneOf")) or _list(schema.get("anyOf"))
    return tuple(map(str, _list(schema.get("enum")))) or tuple(
        str(each["const"]) for each in titled if isinstance(each, Mapping) and "const" in each
    )


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _read_block(block: Mapping[str, Any], texts: list[str], images: list[Image]) -> None:
    match block.get("type"):
        case "text":
            texts.append(str(block.get("text", "")))
        case "image":
            _read_image(str(block.get("mimeType", "")), str(block.get("data", "")), texts, images)
        case "audio":
            texts.append(_not_shown("audio", str(block.get("mimeType", "")), str(block.get("data", ""))))
        case "resource":
            _read_resource(block.get("resource") or {}, texts, images)
        case "resource_link":
            texts.append(f"[resource {block.get('uri', '')}: {block.get('description') or block.get('name', '')}]")
        case kind:
            texts.append(f"[content of the type {kind}, which is not supported]")


def _read_resource(resource: Mapping[str, Any], texts: list[str], images: list[Image]) -> None:
    media_type, uri = str(resource.get("mimeType") or ""), resource.get("uri", "")
    if "text" in resource:
        texts.append(str(resource["text"]))
    elif media_type in _IMAGE_TYPES:
        _read_image(media_type, str(resource.get("blob", "")), texts, images)
    else:
        texts.append(f"{_not_shown('file', media_type, str(resource.get('blob', '')))} {uri}".strip())


def _read_image(media_type: str, data: str, texts: list[str], images: list[Image]) -> None:
    kind = media_type.lower().replace("image/jpg", "image/jpeg")
    found = "".join(data.rpartition(";base64,")[2].split())  # some servers send a data URL, or lines
    if kind in _IMAGE_TYPES and 0 < len(found) <= _MAX_IMAGE_CHARS and _is_base64(found):
        images.append(Image(kind, found))
    else:
        texts.append(_not_shown("image", media_type, data))


def _is_base64(data: str) -> bool:
    try:
        return bool(binascii.a2b_base64(data, strict_mode=True))
    except ValueError:
        return False


def _not_shown(kind: str, media_type: str, data: str) -> str:
    return f"[{kind}, {media_type or 'of unknown type'}, {len(data) * 3 // 4:,} bytes, not shown]"


def _is_repeated(structured: Any, content: Sequence[Any], texts: Sequence[str]) -> bool:
    """Return True if the content repeats the structured result, in one text or a text for each item. Servers wrap
    a value of another type: `{"result": VALUE}`, `{"content": VALUE}`. Another name of a number is kept: it says
    what is counted."""
    values = [structured]
    if isinstance(structured, dict) and len(structured) == 1:
        ((name, value),) = structured.items()
        values += [value] if name == "result" or isinstance(value, str | list | dict) else []
    return any(
        value == content
        or any(_says_same(text, value) for text in texts)
        or (isinstance(value, list) and len(value) == len(texts) and all(map(_says_same, texts, value)))
        for value in values
    )


def _says_same(text: str, value: Any) -> bool:
    """Return True if a text is a value, or its JSON."""
    if text == value:
        return True
    try:
        said: Any = decode_json(text)
    except msgspec.DecodeError:
        return False
    return bool(said == value) and isinstance(said, bool) == isinstance(value, bool)
