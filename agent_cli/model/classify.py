"""From what a provider answered to one `ModelError`, and from that to words for the user.

Status and the provider's own codes decide first. Message texts are read in one table only, for the
cases in which providers give nothing else: an overfull context, an empty account, missing abilities.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from .base import ErrorKind, ModelError
from .waiting import retry_after_s

_MESSAGE_CHARS = 2000

_BY_CODE: dict[str, ErrorKind] = {
    "context_length_exceeded": "context_overflow",
    "exceed_context_size_error": "context_overflow",
    "model_max_prompt_tokens_exceeded": "context_overflow",
    "insufficient_quota": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "billing_error": "quota",
    "insufficient_balance": "quota",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "rate_limit_reached_error": "rate_limit",
    "too_many_requests": "rate_limit",
    "overloaded_error": "overloaded",
    "engine_overloaded_error": "overloaded",
    "server_overloaded": "overloaded",
    "slow_down": "overloaded",
    "authentication_error": "auth",
    "invalid_authentication_error": "auth",
    "invalid_api_key": "auth",
    "permission_error": "permission",
    "permission_denied": "permission",
    "not_found_error": "not_found",
    "model_not_found": "not_found",
    "request_too_large": "too_large",
    "timeout_error": "timeout",
    "content_filter": "content_filter",
    "content_policy_violation": "content_filter",
    "data_inspection_failed": "content_filter",
}
_BY_STATUS: dict[int, ErrorKind] = {
    401: "auth",
    402: "quota",
    403: "permission",
    404: "not_found",
    405: "not_found",
    408: "timeout",
    409: "server",
    413: "too_large",
    425: "server",
    429: "rate_limit",
    498: "overloaded",
    503: "overloaded",
    504: "timeout",
    524: "timeout",
    529: "overloaded",
}
_STATUS_OF_TYPE = {"invalid_request_error": 400, "api_error": 500, "server_error": 503}
"""For errors that arrive inside a 200."""

_TEXT_STATUSES = frozenset({400, 402, 403, 404, 413, 422, 429, 500})
_BY_TEXT: tuple[tuple[str, set[int], ErrorKind], ...] = (
    (r"max_(completion_)?tokens is too large|supports at most \d+ completion", {400, 422}, "bad_request"),
    (
        r"request too large for .{0,200}limit \d+, requested \d+"
        r"|context[_ ]length|context window|maximum context|prompt is too long|exceed.{0,40}context"
        r"|too large for model|input (is )?too long|context size|input length.{0,30}exceed"
        r"|input token count.{0,60}exceed|reduce the length|tokens to keep from the initial prompt",
        {400, 413, 422, 429, 500},
        "context_overflow",
    ),
    (
        r"current quota|credit balance|insufficient (balance|credits|funds)|billing",
        {400, 402, 403, 429},
        "quota",
    ),
    (r"not support (tool|function)|support tool use|tool.{0,30}not supported", {400, 404, 422}, "unsupported"),
    (r"flagged|moderation", {400, 403}, "content_filter"),
)
_LIMIT = re.compile(
    r"maximum context length (?:is|of) ([\d,]+)|> ([\d,]+) maximum|context size \(([\d,]+)"
    r"|with ([\d,]+) maximum context|context limit: [\d,+ ]+> ([\d,]+)|limit ([\d,]+), requested"
    r"|tokens allowed \(([\d,]+)\)|context (?:length|window|size) of (?:only )?([\d,]+)",
    re.IGNORECASE,
)
_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "cf-ray")


class _Body(msgspec.Struct, frozen=True):
    """What the error bodies of all providers come down to."""

    message: str
    words: tuple[str, ...]
    """Codes and types, in lower case."""
    fields: dict[str, Any]


def classify(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> ModelError:
    """The error that an answer stands for.

    Args:
        status: HTTP status; None or 200 when the error came inside a stream or a successful answer.
        body: decoded JSON of any shape, or text.
        headers: of the response, names in lower case.
    """
    headers = headers or {}
    read = _read_body(body)
    shown = status if status not in (None, 200) else _status_inside(read.words)
    wait = retry_after_s(headers, read.message, read.fields, limited=shown == 429)
    kind = _kind(shown, read, waits=wait is not None)
    return ModelError(
        kind,
        read.message or f"HTTP {shown}",
        status=shown,
        retry_after_s=wait if kind in ("rate_limit", "overloaded", "server", "timeout") else None,
        request_id=request_id(headers, body),
        limit_tokens=_limit_tokens(read) if kind == "context_overflow" else None,
    )


def request_id(headers: Mapping[str, str], body: Any = None) -> str | None:
    """The provider's name for a request, for its support."""
    for name in _REQUEST_ID_HEADERS:
        if headers.get(name):
            return headers[name]
    inside = body.get("request_id") if isinstance(body, dict) else None
    return inside if isinstance(inside, str) else None


def _kind(status: int, body: _Body, *, waits: bool) -> ErrorKind:
    by_text = _text_kind(status, body.message)
    if by_text == "context_overflow" and status in (413, 429):
        return by_text  # larger than a whole minute's allowance: waiting would not help
    for word in body.words:
        if word in _BY_CODE:
            return _BY_CODE[word]
    if by_text is not None and not (by_text == "quota" and waits):
        return by_text
    return _BY_STATUS.get(status) or ("server" if status >= 500 else "bad_request")


def _text_kind(status: int, message: str) -> ErrorKind | None:
    if status not in _TEXT_STATUSES:
        return None
    for pattern, statuses, kind in _BY_TEXT:
        if status in statuses and re.search(pattern, message, re.IGNORECASE):
            return kind
    return None


def _status_inside(words: tuple[str, ...]) -> int:
    for word in words:
        if word.isdigit() and 400 <= int(word) < 600:
            return int(word)
    return next((_STATUS_OF_TYPE[word] for word in words if word in _STATUS_OF_TYPE), 500)


def _read_body(body: Any) -> _Body:
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        return _Body(_plain(body), (), {})
    if not isinstance(body, dict):
        return _Body(str(body or ""), (), {})
    inner = body.get("error", body)
    fields = inner if isinstance(inner, dict) else {"message": inner}
    message = fields.get("message") or body.get("message") or fields.get("detail") or fields
    words = tuple(
        str(fields[name]).lower() for name in ("code", "type", "status") if fields.get(name) not in (None, "")
    )
    text = message if isinstance(message, str) else msgspec.json.encode(message).decode()
    return _Body((text + _upstream(fields))[:_MESSAGE_CHARS], words, fields)


def _upstream(fields: dict[str, Any]) -> str:
    """What a router says of the provider behind it."""
    metadata = fields.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return f" ({raw})" if isinstance(raw, str) and raw else ""


def _plain(text: str) -> str:
    if text.lstrip()[:1] != "<":
        return text.strip()[:_MESSAGE_CHARS]
    title = re.search(r"<title>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
    words = title[1] if title else re.sub(r"<[^>]*>", " ", text)
    return f"an HTML page instead of an answer: {' '.join(words.split())[:200]}"


def _limit_tokens(body: _Body) -> int | None:
    if isinstance(body.fields.get("n_ctx"), int):
        return int(body.fields["n_ctx"])
    found = _LIMIT.search(body.message)
    return next((int(group.replace(",", "")) for group in found.groups() if group), None) if found else None
