"""What a strict Chat Completions provider refuses, as a check on request bodies."""

import json
from typing import Any

_FIELDS = {
    "model", "messages", "stream", "stream_options", "tools", "tool_choice", "max_tokens",
    "max_completion_tokens", "reasoning_effort", "temperature",
}  # fmt: skip
_MESSAGE_FIELDS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "reasoning_content"},
    "tool": {"role", "content", "tool_call_id"},
}


def complaint(body: Any, extra_fields: frozenset[str] = frozenset()) -> str:
    """Why a strict server answers 400 to this body; empty when it would not."""
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list) or not body["messages"]:
        return "messages: expected a list that is not empty"
    unknown = body.keys() - _FIELDS - extra_fields
    if unknown:
        return f"unknown fields {sorted(unknown)}"
    if not isinstance(body.get("model"), str) or not body["model"]:
        return "model: missing"
    return _tools_complaint(body.get("tools", [])) or _messages_complaint(body["messages"])


def _tools_complaint(tools: list[Any]) -> str:
    if not isinstance(tools, list):
        return "tools: expected a list"
    for place, tool in enumerate(tools):
        function = tool.get("function", {})
        if tool.get("type") != "function" or not function.get("name"):
            return f"tools.{place}: expected a function with a name"
        if function.get("parameters", {}).get("type") != "object":
            return f"tools.{place}: parameters must be the schema of an object"
    return ""


def _messages_complaint(messages: list[dict[str, Any]]) -> str:
    conversation = [message for message in messages if message.get("role") != "system"]
    if not conversation or conversation[0].get("role") != "user":
        return "messages: the first one must be the user's"
    open_calls: list[str] = []
    for place, message in enumerate(messages):
        problem = _message_complaint(message, open_calls)
        if problem:
            return f"messages.{place}: {problem}"
    return f"messages: calls {open_calls} are not answered" if open_calls else ""


def _message_complaint(message: dict[str, Any], open_calls: list[str]) -> str:
    role = message.get("role")
    if role not in _MESSAGE_FIELDS:
        return f"unknown role {role!r}"
    if message.keys() - _MESSAGE_FIELDS[role]:
        return f"unknown fields {sorted(message.keys() - _MESSAGE_FIELDS[role])}"
    if role == "tool":
        if message.get("tool_call_id") not in open_calls:
            return f"answers no open call: {message.get('tool_call_id')!r}"
        open_calls.remove(message["tool_call_id"])
        return "" if isinstance(message.get("content"), str | list) else "content: expected text"
    if open_calls:
        return f"calls {open_calls} are not answered"
    if role != "assistant" and not message.get("content"):
        return "content: empty"
    return _calls_complaint(message, open_calls)


def _calls_complaint(message: dict[str, Any], open_calls: list[str]) -> str:
    for call in message.get("tool_calls", ()):
        function = call.get("function", {})
        if not call.get("id") or call["id"] in open_calls or not function.get("name"):
            return f"tool_calls: an id or name is missing or repeated in {call}"
        try:
            arguments = json.loads(function.get("arguments", ""))
        except (ValueError, TypeError):
            arguments = None
        if not isinstance(arguments, dict):
            return f"tool_calls: arguments of {call['id']} are no JSON object: {function.get('arguments')!r}"
        open_calls.append(call["id"])
    if message.get("role") == "assistant" and not message.get("content") and not message.get("tool_calls"):
        return "an assistant message needs content or tool_calls"
    return ""
