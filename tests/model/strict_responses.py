"""What OpenAI's Responses API refuses, as a check on request bodies. Its own words are kept where the client
reads them. Stricter in one thing: nothing may be stored."""

import json
import re
from typing import Any

from .strict_schemas import not_strict, openai_complaint

Json = dict[str, Any]

_FIELDS = {
    "model", "input", "instructions", "store", "include", "stream", "tools", "tool_choice", "reasoning",
    "max_output_tokens", "prompt_cache_key", "parallel_tool_calls", "text", "metadata", "service_tier", "truncation",
}  # fmt: skip
_ITEMS: dict[str, tuple[set[str], set[str]]] = {
    "message": ({"role", "content"}, {"id", "status", "phase"}),
    "function_call": ({"call_id", "name", "arguments"}, {"id", "status"}),
    "function_call_output": ({"call_id", "output"}, {"id", "status"}),
    "reasoning": ({"summary", "encrypted_content"}, {"id", "content", "status"}),
}
"""Needed and allowed fields of each item."""
_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fc", "reasoning": "rs"}
_EFFORTS = {"none", "minimal", "low", "medium", "high", "xhigh", "max"}
_REASONING = {"effort", "summary", "context"}
_SHORTEST_OUTPUT = 16


def complaint(body: Any, extra_fields: frozenset[str] = frozenset(), flavour: str = "") -> str:
    """Why the API answers 400 to this body; empty when it would not."""
    if not isinstance(body, dict):
        return "the body is no JSON object"
    unknown = body.keys() - _FIELDS - extra_fields
    if unknown:
        return f"Unknown parameter: '{min(unknown)}'."
    if not isinstance(body.get("model"), str) or not body["model"]:
        return "Missing required parameter: 'model'."
    return (
        _settings_complaint(body)
        or _tools_complaint(body)
        or _input_complaint(body.get("input"))
        or _pairs_complaint(body["input"])
    )


def _settings_complaint(body: Json) -> str:
    if body.get("store") is not False:
        return "'store' must be false: nothing may be kept at the provider"
    if body.get("stream") is not True:
        return "'stream' must be true"
    if set(body.get("include", ())) - {"reasoning.encrypted_content"}:
        return "Invalid value: 'include'"
    if not isinstance(body.get("instructions", ""), str):
        return "Invalid type for 'instructions': expected a string"
    reasoning = body.get("reasoning", {})
    if reasoning.keys() - _REASONING:
        return f"Unknown parameter: 'reasoning.{min(reasoning.keys() - _REASONING)}'."
    if reasoning.get("effort", "low") not in _EFFORTS or reasoning.get("summary", "auto") not in (
        "auto",
        "detailed",
    ):
        return f"Invalid value: '{reasoning}'."
    if "text" in body and (why := _text_complaint(body["text"])):
        return why
    if body.get("max_output_tokens", _SHORTEST_OUTPUT) < _SHORTEST_OUTPUT:
        return "Invalid 'max_output_tokens': integer below minimum value."
    if len(body.get("prompt_cache_key", "")) > 64:
        return "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64"
    return ""


def _text_complaint(text: Json) -> str:
    form = text.get("format", {})
    if text.keys() != {"format"} or form.get("type") != "json_schema":
        return "Unknown parameter: 'text'."
    return openai_complaint({key: value for key, value in form.items() if key != "type"}, "text.format")


def _tools_complaint(body: Json) -> str:
    tools = body.get("tools", [])
    for place, tool in enumerate(tools):
        if tool.keys() - {"type", "name", "description", "parameters", "strict"} or tool.get("type") != "function":
            return f"Unknown parameter in 'tools[{place}]'."
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool.get("name", "")):
            return f"Invalid 'tools[{place}].name'"
        if tool.get("parameters", {}).get("type") != "object":
            return f"Invalid schema for function '{tool['name']}'"
        if tool.get("strict", True) and (why := not_strict(tool["parameters"])):
            return f"Invalid schema for function '{tool['name']}': In context=(), {why}"
    choice = body.get("tool_choice")
    named = [{"type": "function", "name": tool["name"]} for tool in tools]
    if choice is not None and (not tools or choice not in ("none", "auto", "required", *named)):
        return "Invalid value: 'tool_choice'."
    return ""


def _input_complaint(items: Any) -> str:
    if not isinstance(items, list) or not items:
        return "Invalid 'input': empty array."
    ids: set[str] = set()
    for place, item in enumerate(items):
        kind = item.get("type", "message")
        if kind not in _ITEMS:
            return f"Invalid value: '{kind}' at 'input[{place}]'."
        needed, allowed = _ITEMS[kind]
        if needed - item.keys():
            return f"Missing required parameter: 'input[{place}].{min(needed - item.keys())}'."
        if item.keys() - needed - allowed - {"type"}:
            return f"Unknown parameter: 'input[{place}].{min(item.keys() - needed - allowed - {'type'})}'."
        if problem := _id_complaint(item.get("id"), _PREFIXES[kind], ids) or _ITEM_RULES[kind](item):
            return f"Invalid 'input[{place}]': {problem}"
    return ""


def _id_complaint(given: Any, prefix: str, seen: set[str]) -> str:
    if given is None:
        return ""
    if not isinstance(given, str) or not given.startswith(prefix):
        return f"expected an ID that begins with '{prefix}'"
    if given in seen:
        return f"Duplicate item found with id {given}. Remove duplicate items from your input and try again."
    seen.add(given)
    return ""


def _message_complaint(item: Json) -> str:
    content = item["content"]
    if item["role"] not in ("user", "assistant", "developer", "system"):
        return f"unknown role {item['role']!r}"
    if isinstance(content, str):
        return "" if content else "content: empty"
    kinds = {"output_text", "refusal"} if item["role"] == "assistant" else {"input_text", "input_image"}
    return _parts_complaint(content, kinds)


def _parts_complaint(content: Any, kinds: set[str]) -> str:
    if not isinstance(content, list) or not content:
        return "content: empty"
    for part in content:
        if part.get("type") not in kinds:
            return f"Invalid value: '{part.get('type')}'. Supported values are: {sorted(kinds)}"
        if part["type"] == "input_image":
            known = part.keys() <= {"type", "image_url", "detail"}
            if not known or not re.match(r"data:image/\w+;base64,.", part.get("image_url", "")):
                return "image_url: expected a base64-encoded data URL"
        elif part.keys() - {"type", "text", "refusal", "annotations"} or not (
            part.get("text") or part.get("refusal")
        ):
            return "text: empty"
    return ""


def _call_complaint(item: Json) -> str:
    if not 1 <= len(item["call_id"]) <= 64:
        return "call_id: string too long. Expected a string with maximum length 64"
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", item["name"]):
        return "name: string does not match pattern. Expected a string that matches '^[a-zA-Z0-9_-]+$'"
    try:
        arguments = json.loads(item["arguments"])
    except (ValueError, TypeError):
        arguments = None
    return "" if isinstance(arguments, dict) else f"arguments: no JSON object: {item['arguments']!r}"


def _output_complaint(item: Json) -> str:
    if isinstance(item["output"], str):
        return ""
    return _parts_complaint(item["output"], {"input_text", "input_image"})


def _reasoning_complaint(item: Json) -> str:
    if not isinstance(item["encrypted_content"], str) or not item["encrypted_content"]:
        return "Items are not persisted when `store` is set to false: encrypted_content is missing"
    good = isinstance(item["summary"], list) and all(
        isinstance(part, dict) and part.keys() == {"type", "text"} and part["type"] == "summary_text"
        for part in item["summary"]
    )
    return "" if good else "summary: expected a list of summary_text"


_ITEM_RULES: dict[str, Any] = {
    "message": _message_complaint,
    "function_call": _call_complaint,
    "function_call_output": _output_complaint,
    "reasoning": _reasoning_complaint,
}


def _pairs_complaint(items: list[Json]) -> str:
    open_calls: list[str] = []
    seen: set[str] = set()
    thinking = ""
    for item in items:
        kind = item.get("type", "message")
        by_model = kind == "function_call" or item.get("role") == "assistant" or kind == "reasoning"
        if thinking and not by_model:
            break
        thinking = item.get("id", "without an id") if kind == "reasoning" else ""
        if kind == "function_call":
            if item["call_id"] in seen:
                return f"call_id {item['call_id']} is used twice"
            seen.add(item["call_id"])
            open_calls.append(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in open_calls:
                return f"No tool call found for function call output with call_id {item['call_id']}."
            open_calls.remove(item["call_id"])
    if thinking:
        return f"Item '{thinking}' of type 'reasoning' was provided without its required following item."
    return f"No tool output found for function call {open_calls[0]}." if open_calls else ""
