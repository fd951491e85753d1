"""What Anthropic's Messages API refuses, as a check on request bodies. Its own words are kept where the
client reads them."""

import re
from collections.abc import Iterator
from typing import Any

from .strict_schemas import anthropic_complaint

Json = dict[str, Any]

_FIELDS = {
    "model", "messages", "max_tokens", "system", "stream", "tools", "tool_choice", "thinking", "output_config",
    "metadata", "stop_sequences", "service_tier", "cache_control",
}  # fmt: skip
_BLOCKS: dict[str, dict[str, tuple[set[str], set[str]]]] = {
    "user": {
        "text": ({"text"}, {"cache_control"}),
        "image": ({"source"}, {"cache_control"}),
        "tool_result": ({"tool_use_id"}, {"content", "is_error", "cache_control"}),
    },
    "assistant": {
        "text": ({"text"}, {"cache_control"}),
        "thinking": ({"thinking", "signature"}, set()),
        "redacted_thinking": ({"data"}, set()),
        "tool_use": ({"id", "name", "input"}, {"cache_control"}),
    },
}
"""Needed and allowed fields of each block, by role."""
_EFFORTS = {"low", "medium", "high", "xhigh", "max"}
_THINKING = {
    "adaptive": {"display", "block_binding"},
    "enabled": {"budget_tokens", "display"},
    "disabled": set(),
    "between_tools": set(),
}
_NEVER_DISABLED = re.compile(r"fable-5-1|mythos-5-1|(opus|sonnet)-5-[1-9]")
_BETWEEN_TOOLS = re.compile(r"sonnet-5-5")
_NO_BUDGET = re.compile(r"opus-(4-[78]|[5-9])|sonnet-[5-9]|haiku-[5-9]|fable|mythos")
_NO_ADAPTIVE = re.compile(r"claude-3|haiku-4|(opus|sonnet)-4-[015]|sonnet-4-2|opus-4-2")
_MOST_MARKS = 4
_MOST_IMAGES = 100
_LARGEST_IMAGE = 5_000_000
_PROPERTY = "[a-zA-Z0-9_.-]{1,64}"


def complaint(body: Any, extra_fields: frozenset[str] = frozenset(), flavour: str = "") -> str:
    """Why the API answers 400 to this body; empty when it would not."""
    if not isinstance(body, dict):
        return "the body is no JSON object"
    unknown = body.keys() - _FIELDS - extra_fields
    if unknown:
        return f"{min(unknown)}: Extra inputs are not permitted"
    for field in ("model", "max_tokens", "messages"):
        if not body.get(field):
            return f"{field}: Field required"
    return (
        _settings_complaint(body)
        or _system_complaint(body.get("system", []))
        or _tools_complaint(body)
        or _messages_complaint(body["messages"])
        or _marks_complaint(body)
        or _start_complaint(body)
    )


def _settings_complaint(body: Json) -> str:
    thinking = body.get("thinking", {"type": "disabled"})
    kind, model = thinking.get("type"), body["model"]
    if kind not in _THINKING or thinking.keys() - {"type"} - _THINKING[kind]:
        return f"thinking: Extra inputs are not permitted: {thinking}"
    refused = {"enabled": _NO_BUDGET, "adaptive": _NO_ADAPTIVE, "disabled": _NEVER_DISABLED}.get(kind)
    is_refused = refused.search(model) if refused else not _BETWEEN_TOOLS.search(model)
    if "thinking" in body and is_refused:
        return f'"thinking.type.{kind}" is not supported for this model.'
    if kind == "enabled" and thinking.get("budget_tokens", 0) < 1024:
        return "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    if kind == "enabled" and thinking["budget_tokens"] >= body["max_tokens"]:
        return "`max_tokens` must be greater than `thinking.budget_tokens`"
    config = body.get("output_config", {})
    if config.keys() - {"effort", "format"} or config.get("effort", "low") not in _EFFORTS:
        return f"output_config.effort: Input should be one of {sorted(_EFFORTS)}"
    return anthropic_complaint(config["format"]) if "format" in config else ""


def _system_complaint(system: Any) -> str:
    if isinstance(system, str):
        return "" if system.strip() else "system: text content blocks must be non-empty"
    for place, block in enumerate(system):
        if block.keys() - {"type", "text", "cache_control"} or block.get("type") != "text":
            return f"system.{place}: Extra inputs are not permitted"
        if problem := _text_complaint(block["text"]):
            return f"system.{place}: {problem}"
    return ""


def _tools_complaint(body: Json) -> str:
    tools = body.get("tools", [])
    names = [tool.get("name", "") for tool in tools]
    for place, tool in enumerate(tools):
        if tool.keys() - {"name", "description", "input_schema", "cache_control"}:
            return f"tools.{place}: Extra inputs are not permitted"
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", names[place]):
            return f"tools.{place}.name: String should match pattern"
        if tool.get("input_schema", {}).get("type") != "object":
            return f"tools.{place}.input_schema.type: Input should be 'object'"
        if any(not re.fullmatch(_PROPERTY, name) for name in tool["input_schema"].get("properties", {})):
            return (
                f"tools.{place}.custom.input_schema.properties: Property keys should match pattern '^{_PROPERTY}$'"
            )
    if len(set(names)) < len(names):
        return "tools: Tool names must be unique."
    choice = body.get("tool_choice")
    if choice is not None and (not tools or choice.get("type") not in ("auto", "any", "tool", "none")):
        return "tool_choice: may only be specified while providing tools"
    if (
        choice
        and choice["type"] in ("any", "tool")
        and body.get("thinking", {}).get("type") not in (None, "disabled")
    ):
        return "Thinking may not be enabled when tool_choice forces tool use."
    if choice and choice["type"] == "tool" and choice.get("name") not in names:
        return "tool_choice.name: there is no such tool"
    return ""


def _messages_complaint(messages: list[Json]) -> str:
    open_calls: list[str] = []
    seen: set[str] = set()
    expected = "user"
    for place, message in enumerate(messages):
        if message.keys() != {"role", "content"}:
            return f"messages.{place}: Extra inputs are not permitted"
        if message["role"] != expected:
            return f"messages.{place}: roles must alternate, starting with the user's"
        blocks = message["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        problem = _blocks_complaint(blocks, message["role"]) or _pairs_complaint(blocks, open_calls)
        if problem:
            return f"messages.{place}{problem}"
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(calls)) < len(calls) or seen & set(calls):
            return f"messages.{place}: `tool_use` ids must be unique"
        seen |= set(calls)
        open_calls = calls
        expected = "assistant" if expected == "user" else "user"
    if messages[-1]["role"] != "user":
        return (
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
    images = sum(
        1 for message in messages for block in _all_blocks(message["content"]) if block["type"] == "image"
    )
    return "messages: too many images" if images > _MOST_IMAGES else ""


def _pairs_complaint(blocks: list[Json], open_calls: list[str]) -> str:
    """Results stand first, one for each call of the message before."""
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    first = [block["type"] for block in blocks[: len(results)]]
    missing = [call for call in open_calls if call not in results]
    if missing or any(kind != "tool_result" for kind in first):
        return (
            f": `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(missing)}. Each "
            "`tool_use` block must have a corresponding `tool_result` block in the next message."
        )
    if set(results) - set(open_calls):
        return ": unexpected `tool_use_id` found in `tool_result` blocks"
    return ": each tool_use must have a single result" if len(set(results)) < len(results) else ""


def _blocks_complaint(blocks: Any, role: str) -> str:
    if not isinstance(blocks, list) or not blocks:
        return ".content: must have non-empty content"
    for place, block in enumerate(blocks):
        kind = block.get("type")
        if kind not in _BLOCKS[role]:
            return f".content.{place}: Input tag {kind!r} does not belong into a message of the {role}"
        needed, allowed = _BLOCKS[role][kind]
        if needed - block.keys():
            return f".content.{place}.{kind}.{min(needed - block.keys())}: Field required"
        if block.keys() - needed - allowed - {"type"}:
            return f".content.{place}: Extra inputs are not permitted"
        if problem := _BLOCK_RULES[kind](block):
            return f".content.{place}: {problem}"
    if blocks[-1]["type"] in ("thinking", "redacted_thinking"):
        return ": The final block in an assistant message cannot be `thinking`."
    return ""


def _text_complaint(text: Any) -> str:
    if not isinstance(text, str) or not text:
        return "text content blocks must be non-empty"
    return "" if text.strip() else "text content blocks must contain non-whitespace text"


def _image_complaint(block: Json) -> str:
    source = block["source"]
    if source.keys() != {"type", "media_type", "data"} or source["type"] != "base64":
        return "image.source: Extra inputs are not permitted"
    if source["media_type"] not in ("image/png", "image/jpeg", "image/gif", "image/webp") or not source["data"]:
        return "image.source: Input should be a picture"
    return "image exceeds 5 MB maximum" if len(source["data"]) > _LARGEST_IMAGE else ""


def _thinking_complaint(block: Json) -> str:
    if not isinstance(block["thinking"], str) or not block["signature"]:
        return "Invalid `signature` in `thinking` block"
    return ""


def _result_complaint(block: Json) -> str:
    inner = block.get("content", [])
    if not isinstance(block.get("is_error", False), bool):
        return "is_error: Input should be a valid boolean"
    if isinstance(inner, str):
        return ""
    for each in inner:
        if each.get("type") not in ("text", "image") or (problem := _BLOCK_RULES[each["type"]](each)):
            return f"tool_result.content: {problem if each.get('type') in ('text', 'image') else each}"
    return ""


def _call_complaint(block: Json) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]):
        return "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"]):
        return "tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
    return "" if isinstance(block["input"], dict) else "tool_use.input: Input should be a valid dictionary"


_BLOCK_RULES: dict[str, Any] = {
    "text": lambda block: _text_complaint(block["text"]),
    "image": _image_complaint,
    "thinking": _thinking_complaint,
    "redacted_thinking": lambda block: "" if block["data"] else "Invalid `data` in `redacted_thinking` block",
    "tool_result": _result_complaint,
    "tool_use": _call_complaint,
}


def _all_blocks(content: Any) -> Iterator[Json]:
    for block in content if isinstance(content, list) else ():
        yield block
        yield from _all_blocks(block.get("content"))


def _marks_complaint(body: Json) -> str:
    places = [*body.get("tools", []), *(body["system"] if isinstance(body.get("system"), list) else [])]
    for message in body["messages"]:
        places += _all_blocks(message["content"])
    marks = sum("cache_control" in place for place in places)
    if marks > _MOST_MARKS:
        return f"A maximum of {_MOST_MARKS} blocks with cache_control may be provided. Found {marks}."
    return ""


def _start_complaint(body: Json) -> str:
    """With a thinking budget, the answer that made the calls now answered must begin with thinking."""
    if body.get("thinking", {}).get("type") != "enabled":
        return ""
    messages = body["messages"]
    at = len(messages) - 1
    while at > 0 and any(block["type"] == "tool_result" for block in _all_blocks(messages[at]["content"])):
        at -= 2
    if at == len(messages) - 1:
        return ""
    found = messages[at + 1]["content"][0]["type"]
    if found in ("thinking", "redacted_thinking"):
        return ""
    return (
        f"messages.{at + 1}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{found}`. When "
        "`thinking` is enabled, a final `assistant` message must start with a thinking block."
    )
