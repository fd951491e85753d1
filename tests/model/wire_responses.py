"""A `Reply` in OpenAI Responses."""

import json
from typing import Any

from agent_cli.protocol.usage import Usage
from tests.model.replies import SIGNATURE, Call, Reply, chunks, counts, new_id

_ERRORS = {
    "overloaded": {"code": "server_is_overloaded", "message": "Our servers are currently overloaded."},
    "rate_limit": {"code": "rate_limit_exceeded", "message": "slow down"},
    "server": {"code": "server_error", "message": "An error occurred while processing your request."},
}
_REASONS = {"length": "max_output_tokens"}

_Event = tuple[str, dict[str, Any]]


def events(reply: Reply) -> list[bytes]:
    """The server-sent events of a reply."""
    made: list[_Event] = [
        ("response.created", {"response": _response("in_progress")}),
        ("response.in_progress", {"response": _response("in_progress")}),
    ]
    output: list[dict[str, Any]] = []
    for item, inner in _items(reply):
        index = len(output)
        made.append(("response.output_item.added", {"output_index": index, "item": _begun(item)}))
        made += [(name, {"item_id": item["id"], "output_index": index, **fields}) for name, fields in inner]
        made.append(("response.output_item.done", {"output_index": index, "item": item}))
        output.append(item)
    made += _end(reply, output)
    return [event(name, sequence_number=number, **fields) for number, (name, fields) in enumerate(made)]


def event(name: str, **fields: Any) -> bytes:
    """One server-sent event."""
    return f"event: {name}\ndata: {json.dumps({'type': name} | fields)}\n\n".encode()


def error(status: int, message: str) -> dict[str, Any]:
    """The body of a refusal."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def used(sent: bytes) -> Usage | None:
    """The usage that went out."""
    found = None
    for chunk in chunks(sent):
        found = (chunk.get("response") or chunk).get("usage") or found
    if not found:
        return None
    inner = found.get("input_tokens_details") or {}
    read, written = inner.get("cached_tokens"), inner.get("cache_write_tokens")
    return Usage(
        input=found["input_tokens"] - (read or 0) - (written or 0),
        output=found["output_tokens"],
        cache_read=read,
        cache_write=written,
        reasoning=(found.get("output_tokens_details") or {}).get("reasoning_tokens"),
    )


def _end(reply: Reply, output: list[dict[str, Any]]) -> list[_Event]:
    if reply.error == "overloaded":
        failed = _response("failed") | {"error": _ERRORS["overloaded"], "output": output}
        return [("response.failed", {"response": failed})]
    if reply.error:
        return [("error", {**_ERRORS[reply.error], "param": None})]
    if not reply.ending:
        return []
    done = reply.ending in ("stop", "tool_calls", "refusal")
    status = "completed" if done else "incomplete"
    response = _response(status) | {"output": output, "usage": _usage(reply)}
    if not done:
        response["incomplete_details"] = {"reason": _REASONS.get(reply.ending, reply.ending)}
    return [(f"response.{status}", {"response": response})]


def _response(status: str) -> dict[str, Any]:
    return {
        "id": "resp_1", "object": "response", "status": status, "model": "mock", "output": [], "error": None,
        "incomplete_details": None, "store": False, "usage": None,
    }  # fmt: skip


def _usage(reply: Reply) -> dict[str, Any] | None:
    if reply.usage is None:
        return None
    known = counts(reply.usage)
    inner = {"cached_tokens": known.read, "cache_write_tokens": known.written}
    return {
        "input_tokens": known.prompt,
        "input_tokens_details": {name: value for name, value in inner.items() if value is not None},
        "output_tokens": known.completion,
        "output_tokens_details": {"reasoning_tokens": known.reasoning or 0},
        "total_tokens": (known.prompt or 0) + (known.completion or 0),
    }


def _items(reply: Reply) -> list[tuple[dict[str, Any], list[_Event]]]:
    """Each item when it is complete, and the events between its beginning and its end."""
    made = []
    if reply.reasoning or reply.signature:
        made.append(_reasoning(reply))
    for data in reply.redacted:
        item = {"id": new_id("rs_"), "type": "reasoning", "summary": [], "encrypted_content": data}
        made.append((item, []))
    if reply.text:
        made.append(_message(reply))
    made += [_call(call, reply) for call in reply.calls]
    return made


def _reasoning(reply: Reply) -> tuple[dict[str, Any], list[_Event]]:
    whole = {"type": "summary_text", "text": reply.reasoning}
    item = {
        "id": new_id("rs_"),
        "type": "reasoning",
        "summary": [whole] if reply.reasoning else [],
        "encrypted_content": reply.signature or SIGNATURE,
    }
    name = "response.reasoning_summary"
    if not reply.reasoning:
        return item, []
    inner: list[_Event] = [
        (f"{name}_part.added", {"summary_index": 0, "part": whole | {"text": ""}}),
        *((f"{name}_text.delta", {"summary_index": 0, "delta": part}) for part in reply.pieces(reply.reasoning)),
        (f"{name}_text.done", {"summary_index": 0, "text": reply.reasoning}),
        (f"{name}_part.done", {"summary_index": 0, "part": whole}),
    ]
    return item, inner


def _message(reply: Reply) -> tuple[dict[str, Any], list[_Event]]:
    refused = reply.ending == "refusal"
    kind, field = ("refusal", "refusal") if refused else ("output_text", "text")
    part = {"type": kind, field: reply.text} | ({} if refused else {"annotations": []})
    item = {
        "id": new_id("msg_"), "type": "message", "status": "completed", "role": "assistant", "content": [part],
    }  # fmt: skip
    place = {"content_index": 0}
    inner: list[_Event] = [
        ("response.content_part.added", {**place, "part": part | {field: ""}}),
        *((f"response.{kind}.delta", {**place, "delta": piece}) for piece in reply.pieces(reply.text)),
        (f"response.{kind}.done", {**place, field: reply.text}),
        ("response.content_part.done", {**place, "part": part}),
    ]
    return item, inner


def _call(call: Call, reply: Reply) -> tuple[dict[str, Any], list[_Event]]:
    item = {
        "id": new_id("fc_"), "type": "function_call", "status": "completed", "name": call.name,
        "call_id": call.id or new_id("call_"), "arguments": call.text,
    }  # fmt: skip
    name = "response.function_call_arguments"
    inner: list[_Event] = [(f"{name}.delta", {"delta": part}) for part in reply.pieces(call.text)]
    return item, [*inner, (f"{name}.done", {"arguments": call.text})]


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    empty = {"summary": [], "content": [], "arguments": "", "status": "in_progress"}
    begun = {name: empty.get(name, value) for name, value in item.items() if name != "encrypted_content"}
    return begun
