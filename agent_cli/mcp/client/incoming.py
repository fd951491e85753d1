"""Decode lines from a server tolerantly: batches are split, and an answer that is not valid becomes an error for
its request instead of a lost message."""

import re
from typing import Any

import mcp_types as wire
import msgspec

from agent_cli.protocol.json_text import BYTE_ORDER_MARK, decode_json, repair_json

UNREAD = "Failed to parse JSON response: "
"""Beginning of the SDK's message about an answer that it could not read."""
_ID = rb'"id"\s*:\s*(\d{1,15})'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_ANSWER = re.compile(
    rb'\{\s*(?:%b\s*,\s*)?%b\s*,\s*"(?:result|error)"\s*:.*\}\s*\Z|\{\s*"(?:result|error)"\s*:.*,\s*%b\s*,\s*%b\s*\}\s*\Z'
    % (_VERSION, _ID, _VERSION, _ID),
    re.DOTALL,
)
"""An answer by its ends, in the order in which the SDKs write: what is between may be too much for a parser."""


class _Answer(msgspec.Struct, frozen=True):
    """An answer that need not be valid."""

    id: int | str
    error: Any = msgspec.UNSET
    method: Any = msgspec.UNSET


def parts_of(line: bytes) -> list[bytes]:
    """Return the messages in a line: one, or those of a batch, which servers may send in the revision of March
    2025.

    Raises:
        ValueError: it is neither an object nor a list of objects.
    """
    line = repair_json(line.removeprefix(BYTE_ORDER_MARK).strip())
    if line[:1] == b"{":
        return [line]
    try:
        parts = [bytes(part) for part in decode_json(line, type=list[msgspec.Raw])]
    except msgspec.DecodeError as error:
        raise ValueError("no message") from error
    if not parts or any(part[:1] != b"{" for part in parts):
        raise ValueError("no batch of messages")
    return parts


def substitute(text: bytes) -> wire.JSONRPCError | None:
    """Return the error to deliver instead of an answer that is not valid, so that nobody waits for it; None if it
    is not known what it answers."""
    try:
        answer = decode_json(text, type=_Answer)
    except msgspec.DecodeError:
        found = _ANSWER.match(text)
        return _error(int(found[1] or found[2]), f"{UNREAD}it is not valid JSON") if found else None
    if answer.method is not msgspec.UNSET:
        return None
    if answer.error in (msgspec.UNSET, None):
        return _error(answer.id, f"{UNREAD}validation error")
    said = answer.error.get("message") if isinstance(answer.error, dict) else None
    return _error(answer.id, str(said or answer.error))


def _error(request_id: int | str, message: str) -> wire.JSONRPCError:
    return wire.JSONRPCError(
        jsonrpc="2.0", id=request_id, error=wire.ErrorData(code=wire.INTERNAL_ERROR, message=message)
    )
