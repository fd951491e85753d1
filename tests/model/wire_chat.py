"""A `Reply` in Chat Completions."""

import json
from typing import Any

from agent_cli.protocol.usage import Usage
from tests.model.replies import Call, Reply, chunks, counts, new_id

_ERRORS = {
    "overloaded": {"message": "overloaded", "type": "server_error", "code": 503},
    "rate_limit": {"message": "slow down", "type": "rate_limit_error", "code": 429},
    "server": {"message": "boom", "type": "api_error", "code": 500},
}


def events(reply: Reply) -> list[bytes]:
    """The server-sent events of a reply."""
    refused = reply.ending == "refusal"
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in reply.pieces(reply.reasoning)]
    deltas += [{"refusal" if refused else "content": piece} for piece in reply.pieces(reply.text)]
    for index, call in enumerate(reply.calls):
        deltas += _call_deltas(index, call, reply)
    sent = [event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}) for delta in deltas]
    if reply.error:
        sent.append(event({"error": _ERRORS[reply.error]}))
    if reply.ending:
        finish = "stop" if refused else reply.ending
        sent.append(event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}))
        if reply.usage is not None:
            sent.append(event({"choices": [], "usage": reply.usage}))
        sent.append(b"data: [DONE]\n\n")
    return sent


def event(chunk: dict[str, Any]) -> bytes:
    """One chunk as a server-sent event."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock"}
    return b"data: " + json.dumps(head | chunk, ensure_ascii=False).encode() + b"\n\n"


def error(status: int, message: str) -> dict[str, Any]:
    """The body of a refusal."""
    return {"error": {"message": message, "type": "invalid_request_error", "code": None}}


def used(sent: bytes) -> Usage | None:
    """The usage that went out."""
    found = [chunk["usage"] for chunk in chunks(sent) if chunk.get("usage")]
    if not found:
        return None
    known = counts(found[-1])
    return Usage(
        input=known.fresh,
        output=known.completion,
        cache_read=known.read,
        cache_write=known.written,
        reasoning=known.reasoning,
    )


def _call_deltas(index: int, call: Call, reply: Reply) -> list[dict[str, Any]]:
    first: dict[str, Any] = {"index": index, "id": call.id or new_id("call_"), "type": "function"}
    if call.signature:
        first["extra_content"] = {"google": {"thought_signature": call.signature}}
    function = {"name": call.name, "arguments": ""}
    rest = [{"index": index, "function": {"arguments": part}} for part in reply.pieces(call.text)]
    return [{"tool_calls": [delta]} for delta in (first | {"function": function}, *rest)]
