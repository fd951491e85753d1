"""Convert calls as models write them to the form that tools, records and providers expect. Only what has a single
meaning is converted; everything else stays as it is, and the model is told what is wrong."""

import math
from typing import Any

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import ToolCall, new_id

_NAMESPACES = lazy_regex(r"(?:(?:functions|default_api|multi_tool_use|tools|repo_browser|container)[.:])+(?=.)")
_PARALLEL = "multi_tool_use.parallel"


class _Use(msgspec.Struct):
    recipient_name: str
    parameters: dict[str, Any]


class _Parallel(msgspec.Struct):
    tool_uses: list[_Use]


def meant_calls(call: ToolCall) -> tuple[ToolCall, ...]:
    """Return the calls that a complete call means: itself with its tool's name and valid JSON, or those wrapped in
    `multi_tool_use.parallel`, a tool of ChatGPT that GPT models still call at times."""
    arguments = _valid(call.arguments)
    if call.name.endswith(_PARALLEL) and (uses := _uses(arguments)):
        return tuple(
            ToolCall(new_id("call"), _tool_name(use.recipient_name), msgspec.json.encode(use.parameters).decode())
            for use in uses
        )
    name = _tool_name(call.name)
    if (name, arguments) == (call.name, call.arguments):
        return (call,)
    return (msgspec.structs.replace(call, name=name, arguments=arguments),)


def _tool_name(written: str) -> str:
    """Return the name of the tool in a name as written: `functions.shell`, as GPT models learned it from Codex,
    `default_api:shell` (Gemini), `shell<|channel|>commentary` (gpt-oss). No tool has such a name."""
    name = written.partition("<|")[0].strip()
    found = _NAMESPACES.match(name)
    return (name[found.end() :] if found else name) or written


def _uses(arguments: str) -> list[_Use]:
    try:
        return decode_json(arguments, type=_Parallel).tool_uses
    except msgspec.DecodeError:
        return []


def _valid(text: str) -> str:
    """Return arguments as valid JSON. Some servers send none as empty text; some models write line breaks and tabs
    into strings as they are, or the whole object as a string."""
    if not text.strip():
        return "{}"
    try:
        value = decode_json(text)
    except msgspec.DecodeError:
        value = _with_raw_controls(text)
    else:
        if not isinstance(value, str):
            return text
        value = _with_raw_controls(value)
    try:
        return msgspec.json.encode(value).decode() if isinstance(value, dict) else text
    except (UnicodeEncodeError, RecursionError):  # half a surrogate pair: what it was is not known
        return text


def _with_raw_controls(text: str) -> Any:
    """Decode JSON that may have control characters in strings; None if it is not JSON, or has a number that JSON
    cannot express."""
    import json

    try:
        return json.loads(text, strict=False, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return None


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is no number of JSON")
    return value
