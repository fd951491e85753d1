"""What a strict Chat Completions provider refuses, as a check on request bodies."""

import json
import re
from typing import Any, Literal, NamedTuple

from .strict_schemas import openai_complaint

_FIELDS = {
    "model", "messages", "stream", "stream_options", "tools", "tool_choice", "max_tokens",
    "max_completion_tokens", "reasoning_effort", "temperature", "response_format",
}  # fmt: skip
_MESSAGE_FIELDS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "reasoning_content"},
    "tool": {"role", "content", "tool_call_id"},
}

_TURNS = ("user", "assistant")


class Flavour(NamedTuple):
    """What one provider wants beyond that."""

    ids: str = r".+"
    """What a call's id must look like."""
    reasoning: Literal["may", "must", "never"] = "may"
    """Whether an answer with calls carries its reasoning."""
    signatures: bool = False
    """Calls carry Gemini's thought signature, the first of each answer at least."""
    answered: bool = False
    """Between a result and the user's next message stands an answer."""
    alternating: bool = False
    """User and assistant take turns, answers with calls and results left out of account, as the templates of
    Mistral, Gemma and Llama 2 want it."""


FLAVOURS = {
    "": Flavour(),
    "plain": Flavour(ids=r".{1,40}"),
    "deepseek": Flavour(reasoning="must"),
    "mistral": Flavour(ids=r"[a-zA-Z0-9]{9}", reasoning="never", answered=True),
    "alternating": Flavour(alternating=True),
    "gemini": Flavour(reasoning="never", signatures=True),
}


def complaint(body: Any, extra_fields: frozenset[str] = frozenset(), flavour: str = "") -> str:
    """Why a strict server answers 400 to this body; empty when it would not."""
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list) or not body["messages"]:
        return "messages: expected a list that is not empty"
    unknown = body.keys() - _FIELDS - extra_fields
    if unknown:
        return f"unknown fields {sorted(unknown)}"
    if not isinstance(body.get("model"), str) or not body["model"]:
        return "model: missing"
    messages = body["messages"]
    problem = _tools_complaint(body.get("tools", [])) or _messages_complaint(messages) or _format_complaint(body)
    return problem or _flavour_complaint(messages, FLAVOURS[flavour])


def _format_complaint(body: dict[str, Any]) -> str:
    form = body.get("response_format")
    if form is None:
        return ""
    if form.keys() != {"type", "json_schema"} or form["type"] != "json_schema":
        return "Unknown parameter: 'response_format'."
    return openai_complaint(form["json_schema"], "response_format")


def _flavour_complaint(messages: list[dict[str, Any]], flavour: Flavour) -> str:
    turns = [each["role"] for each in messages if each["role"] in _TURNS and not each.get("tool_calls")]
    if flavour.alternating and turns != [_TURNS[place % 2] for place in range(len(turns))]:
        return "Conversation roles must alternate user/assistant/user/assistant/..."
    for place, message in enumerate(messages):
        calls = message.get("tool_calls", ())
        if flavour.answered and message["role"] == "user" and place and messages[place - 1]["role"] == "tool":
            return f"messages.{place}: unexpected role 'user' after role 'tool'"
        given = bool(message.get("reasoning_content"))
        if (given and flavour.reasoning == "never") or (calls and not given and flavour.reasoning == "must"):
            return f"messages.{place}: reasoning_content {flavour.reasoning} be there"
        for call in calls:
            if not re.fullmatch(flavour.ids, call["id"], re.DOTALL):
                return f"messages.{place}: the id {call['id']!r} must match {flavour.ids}"
        if calls and flavour.signatures and not _thought_signature(calls[0]):
            return f"messages.{place}: a function call is missing a thought_signature"
        if any("extra_content" in call for call in calls) and not flavour.signatures:
            return f"messages.{place}: unknown field extra_content"
    return ""


def _thought_signature(call: dict[str, Any]) -> Any:
    return call.get("extra_content", {}).get("google", {}).get("thought_signature")


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
