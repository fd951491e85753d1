"""A `Reply` in Anthropic Messages."""

import json
from collections.abc import Iterator
from typing import Any

from agent_cli.protocol.usage import Usage
from tests.model.replies import SIGNATURE, Call, Reply, chunks, counts, new_id

_STOPS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
_ERRORS = {
    "overloaded": {"type": "overloaded_error", "message": "Overloaded"},
    "rate_limit": {"type": "rate_limit_error", "message": "slow down"},
    "server": {"type": "api_error", "message": "Internal server error"},
}
_TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}  # fmt: skip


def events(reply: Reply) -> list[bytes]:
    """The server-sent events of a reply."""
    sent = [event("message_start", message=_message(reply)), event("ping")]
    for index, (block, deltas) in enumerate(_blocks(reply)):
        sent.append(event("content_block_start", index=index, content_block=block))
        sent += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
        sent.append(event("content_block_stop", index=index))
    if reply.error:
        sent.append(event("error", error=_ERRORS[reply.error]))
    if reply.ending:
        stop = _STOPS.get(reply.ending, reply.ending)
        sent.append(event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage=_end(reply)))
        sent.append(event("message_stop"))
    return sent


def event(name: str, **fields: Any) -> bytes:
    """One server-sent event."""
    data = json.dumps({"type": name} | {key: value for key, value in fields.items() if value is not None})
    return f"event: {name}\ndata: {data}\n\n".encode()


def error(status: int, message: str) -> dict[str, Any]:
    """The body of a refusal."""
    kind = _TYPES.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def used(sent: bytes) -> Usage | None:
    """The usage that went out: early counts, completed by later ones. The early one of the output is none."""
    known: dict[str, Any] = {}
    for chunk in chunks(sent):
        message = chunk.get("message")
        early = dict(message.get("usage") or {}) if isinstance(message, dict) else {}
        early.pop("output_tokens", None)
        found = chunk.get("usage") or early
        known |= {name: value for name, value in found.items() if value is not None}
    if not known:
        return None
    return Usage(
        input=known.get("input_tokens"),
        output=known.get("output_tokens"),
        cache_read=known.get("cache_read_input_tokens"),
        cache_write=known.get("cache_creation_input_tokens"),
        reasoning=(known.get("output_tokens_details") or {}).get("thinking_tokens"),
    )


def _message(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "mock",
        "stop_reason": None, "stop_sequence": None,
    }  # fmt: skip
    if reply.usage is not None:
        known = counts(reply.usage)
        message["usage"] = {
            "input_tokens": known.fresh,
            "cache_read_input_tokens": known.read,
            "cache_creation_input_tokens": known.written,
            "output_tokens": 1,
        }
    return message


def _end(reply: Reply) -> dict[str, Any] | None:
    """The counts that come with the stop reason."""
    if reply.usage is None:
        return None
    known = counts(reply.usage)
    return {
        "output_tokens": known.completion,
        "output_tokens_details": {"thinking_tokens": known.reasoning},
    }


def _blocks(reply: Reply) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each block as it begins, and its deltas."""
    if reply.reasoning or reply.signature:
        thought = [{"type": "thinking_delta", "thinking": piece} for piece in reply.pieces(reply.reasoning)]
        signature = {"type": "signature_delta", "signature": reply.signature or SIGNATURE}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*thought, signature]
    for data in reply.redacted:
        yield {"type": "redacted_thinking", "data": data}, []
    if reply.text:
        pieces = [{"type": "text_delta", "text": piece} for piece in reply.pieces(reply.text)]
        yield {"type": "text", "text": ""}, pieces
    for call in reply.calls:
        yield _call(call), [{"type": "input_json_delta", "partial_json": part} for part in _json(call, reply)]


def _call(call: Call) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id or new_id("toolu_"), "name": call.name, "input": {}}


def _json(call: Call, reply: Reply) -> list[str]:
    """The provider writes nothing but an empty piece for empty arguments."""
    return ["", *(reply.pieces(call.text) if call.text != "{}" else [])]
