"""Convert a request for a server that does not support tools: they are described in the system prompt, and earlier
calls and results become text. `finder` finds the calls in the answer.

Deterministic, and each request stays a prefix of the next one.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import AssistantMessage, Image, Message, ToolCall, ToolResult, UserMessage

from ..types.base import Fallback, LearnedLimits, ModelRequest, ToolSpec
from ..types.info import ModelInfo

TOOLS_FALLBACK = Fallback(
    "tools",
    lazy_regex(
        r"(not|n't) support (tools?|functions?)\b|support tool use"
        r"|\btools?\b(?![.\[]\d| ?['\"“`]\w|.{0,40}(?:reasoning|effort|thinking))"
        r".{0,40}(not supported|unsupported)"
        r"|requires? .{0,10}--(enable-auto-tool-choice|jinja)|(unknown|unrecognized).{0,30}\btools\b",
        re.IGNORECASE,
    ),
    "This server takes no tools for this model; they are described in words from now on. "
    "(llama.cpp needs --jinja, vLLM --enable-auto-tool-choice, to take them.)",
    statuses=(400, 404, 422, 500, 501),
    sure=True,
)
_HOW = """# Tools

You can use the tools below. To use one, end your answer with a block of exactly this form, one block for each \
call, with nothing behind it:

<tool_call>
{"name": "NAME", "arguments": {"KEY": VALUE}}
</tool_call>

The result comes in the next message. Arguments are JSON and follow the tool's schema.
"""
_NO_MORE = "Answer in words now, without using a tool."


def needs_text(learned: LearnedLimits, info: ModelInfo) -> bool:
    """Return True if tools must be described as text: the model refused them, or a reliable source says that it
    does not support them."""
    sure = info.source("tools") in ("configuration", "server")
    return TOOLS_FALLBACK.name in learned.refused or (sure and info.tools is False)


def as_text(request: ModelRequest) -> ModelRequest:
    """Return the request with tools, calls and results converted to text."""
    if not request.tools:
        return request
    messages = tuple(_messages(request.messages))
    if not request.may_call:
        messages += (UserMessage(id="", text=_NO_MORE, origin="hint"),)
    system = "\n\n".join(part for part in (request.system, _described(request.tools)) if part)
    schema = None if request.may_call else request.answer_schema  # a textual call could not match the schema
    return msgspec.structs.replace(request, system=system, messages=messages, tools=(), answer_schema=schema)


def _described(tools: Iterable[ToolSpec]) -> str:
    parts = [
        f"## {tool.name}\n{tool.description.strip()}\nSchema of the arguments: {_json(tool.parameters)}"
        for tool in tools
    ]
    return "\n\n".join([_HOW.strip(), *parts])


def _messages(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages; consecutive results become one user message."""
    results: list[ToolResult] = []
    for message in messages:
        if isinstance(message, ToolResult):
            results.append(message)
            continue
        if results:
            yield _told(results)
            results = []
        yield _said(message) if isinstance(message, AssistantMessage) else message
    if results:
        yield _told(results)


def _said(message: AssistantMessage) -> AssistantMessage:
    if not message.calls:
        return message
    parts = [message.text.rstrip()] if message.text.strip() else []
    parts += [_written(call) for call in message.calls]
    return msgspec.structs.replace(message, text="\n\n".join(parts), calls=())


def _written(call: ToolCall) -> str:
    try:
        arguments = decode_json(call.arguments)
    except msgspec.DecodeError:
        arguments = {}
    return f"<tool_call>\n{_json({'name': call.name, 'arguments': arguments})}\n</tool_call>"


def _told(results: list[ToolResult]) -> UserMessage:
    """Combine several results in one message, each labelled with its tool, in call order."""
    parts = [f'<tool_response name="{each.tool}">\n{each.text}\n</tool_response>' for each in results]
    images: tuple[Image, ...] = tuple(image for each in results for image in each.images)
    return UserMessage(id=results[0].id, text="\n".join(parts), origin="tool", images=images)


def _json(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)
