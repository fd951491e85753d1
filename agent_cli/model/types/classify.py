"""Convert a provider's error response to a `ModelError`.

Status and the provider's own codes decide first; message texts are read only through the table `error_table`, for
providers that give nothing else.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.usage import MOST_TOKENS

from .base import ErrorKind, ModelError
from .error_table import BY_CODE, BY_STATUS, HTML_PAGE, LIMIT, PHRASES, REQUEST_ID_HEADERS, STATUS_OF_TYPE
from .json import join_surrogates, tokens_in
from .retry_after import retry_after_s

_MESSAGE_CHARS = 2000
_READ_CHARS = 20_000
"""Maximum number of characters examined in a text that is not JSON."""
_SHOWN_CHARS = 200
_TELLING = frozenset({"error", "errors", "message", "detail", "code", "response"})
"""Keys of a body that reports an error."""
_LONGEST_NUMBER = 1 << 64
_REQUEST_ID = lazy_regex(r"request ID (req_\w+)", re.IGNORECASE)
_PER_DAY = lazy_regex(r"per_?day", re.IGNORECASE)
_WAITS: frozenset[ErrorKind] = frozenset({"rate_limit", "overloaded"})
"""Kinds for which any hint at a wait counts."""
_MAY_WAIT: frozenset[ErrorKind] = frozenset({"server", "timeout"})
"""Kinds for which only an explicit wait counts."""


class _Body(msgspec.Struct, frozen=True):
    """Common form of all providers' error bodies."""

    message: str
    words: tuple[str, ...] = ()
    """Codes, types and reasons in lower case, the most specific first."""
    fields: dict[str, Any] = {}
    """The error object itself."""
    headers: dict[str, str] = {}
    """Headers that a router or socket passes on inside the body."""


def classify(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> ModelError:
    """Return the error for a response. Never raises, whatever the response is.

    Args:
        status: HTTP status; None or 200 if the error came inside a stream or a successful response.
        body: decoded JSON of any shape, or text.
        headers: of the response, names in lower case.
    """
    read = _read_body(body)
    headers = {**read.headers, **(headers or {})}
    stated = _status_inside(read.words) if status in (None, 200) else status
    shown = stated or _status_of_type(read.words)
    wait = retry_after_s(headers, read.message, read.fields, limited=True)
    kind = _kind(shown, read, waits=wait is not None)
    if kind in _MAY_WAIT:
        wait = retry_after_s(headers, read.message, read.fields, limited=False)
    error = ModelError(
        kind,
        join_surrogates(read.message) or "no reason was given",
        status=stated,
        retry_after_s=wait if kind in _WAITS | _MAY_WAIT else None,
        request_id=request_id(headers, body),
        limit_tokens=_limit_tokens(read) if kind == "context_overflow" else None,
    )
    error.sorted_as = shown
    return error


def no_answer(body: Any) -> ModelError:
    """Return the error for a successful response without an answer: the error it contains, or `not_api` for a web
    page or another program's text. Never raises."""
    first = _first(body)
    if isinstance(first, dict) and first.keys() & _TELLING:
        return classify(200, body)
    said = _plain(body) if isinstance(body, str) else _as_json(body)[:_SHOWN_CHARS]
    is_page = said.startswith(HTML_PAGE)
    return ModelError("not_api", said if is_page else f"no answer came, but: {said[:_SHOWN_CHARS]}")


def request_id(headers: Mapping[str, str], body: Any = None) -> str | None:
    """Return the provider's id of a request, for its support."""
    for name in REQUEST_ID_HEADERS:
        if headers.get(name):
            return join_surrogates(headers[name])
    fields = _fields(body)
    for place in (body, fields):
        inside = place.get("request_id") if isinstance(place, dict) else None
        if isinstance(inside, str) and inside:
            return join_surrogates(inside)
    said = fields.get("message")
    named = _REQUEST_ID.search(said) if isinstance(said, str) else None
    return named[1] if named else None


def _kind(status: int, body: _Body, *, waits: bool) -> ErrorKind:
    by_text = _text_kind(status, body.message)
    if by_text == "context_overflow" and status in (413, 429):
        return by_text  # larger than a whole minute's allowance: waiting would not help
    for word in body.words:
        if word in BY_CODE:
            return BY_CODE[word]
    if by_text is not None and not (by_text == "quota" and waits):
        return by_text
    return BY_STATUS.get(status) or ("server" if status >= 500 else "bad_request")


def _text_kind(status: int, message: str) -> ErrorKind | None:
    for phrase in PHRASES:
        if status in phrase.statuses and phrase.words.search(message):
            return phrase.kind
    return None


def _status_inside(words: tuple[str, ...]) -> int | None:
    """Return the status given inside an error of a successful response."""
    return next((int(word) for word in words if re.fullmatch(r"[45][0-9]{2}", word)), None)


def _status_of_type(words: tuple[str, ...]) -> int:
    """Return the status used to classify an error without one."""
    return next((STATUS_OF_TYPE[word] for word in words if word in STATUS_OF_TYPE), 500)


def _read_body(body: Any, depth: int = 0) -> _Body:
    body = _first(body)
    if isinstance(body, str):
        inner = _decoded(body) if depth < 2 else None
        return _Body(_plain(body)) if inner is None else _read_body(inner, depth + 1)
    if not isinstance(body, dict):
        return _Body(_sentence(body)[:_MESSAGE_CHARS] if body else "")
    fields = _fields(body)
    said = fields.get("message") or body.get("message") or fields.get("detail") or fields
    inner = _decoded(said) if depth < 2 and isinstance(said, str) else None
    below = _read_body(inner, depth + 1) if inner is not None else _Body("")
    text = below.message or _sentence(said)
    return _Body(
        (text + _upstream(fields, depth))[:_MESSAGE_CHARS],
        tuple(dict.fromkeys((*_reasons(fields), *_codes(fields), *_codes(body), *below.words))),
        fields if len(below.fields) < 2 else below.fields,
        _headers_inside(body) | _headers_inside(fields.get("metadata")),
    )


def _fields(body: Any) -> dict[str, Any]:
    """Return the error object in a body, in any wire format."""
    body = _first(body)
    if not isinstance(body, dict):
        return {}
    response = body.get("response")
    inner = body.get("error") or (response.get("error") if isinstance(response, dict) else None) or body
    return inner if isinstance(inner, dict) else {"message": inner}


def _first(body: Any) -> Any:
    return body[0] if isinstance(body, list) and body else body


def _sentence(said: Any) -> str:
    """Return a message of any shape as text; each item of an error list, as FastAPI sends it, is prefixed with its
    location."""
    if isinstance(said, dict) and isinstance(said.get("detail"), list | str):
        said = said["detail"]
    if isinstance(said, list) and said and all(isinstance(each, dict) and "msg" in each for each in said):
        return "; ".join(f"{_place(each.get('loc'))}: {_sentence(each['msg'])}" for each in said)
    return said if isinstance(said, str) else _as_json(said)


def _place(loc: Any) -> str:
    return ".".join(map(_sentence, loc)) if isinstance(loc, list) else _sentence(loc or "")


def _as_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):  # lone surrogates, huge numbers
        return ascii(value) if isinstance(value, str | float) else f"an error of type {type(value).__name__}"


def _codes(fields: dict[str, Any]) -> Iterator[str]:
    for name in ("code", "type", "status", "status_code"):
        if word := _word(fields.get(name)):
            yield word.lower()


def _word(value: Any) -> str:
    """Return a string or integer as text; empty for anything else."""
    if isinstance(value, int) and abs(value) < _LONGEST_NUMBER:
        return str(value)
    return value if isinstance(value, str) else ""


def _reasons(fields: dict[str, Any]) -> Iterator[str]:
    """Yield the reasons in a list of details (google.rpc.Status), and a marker for a daily quota, which no short
    wait restores."""
    details = fields.get("details")
    for detail in details if isinstance(details, list) else ():
        if not isinstance(detail, dict):
            continue
        metadata, violations = detail.get("metadata"), detail.get("violations")
        scopes = [metadata] if isinstance(metadata, dict) else []
        scopes += [each for each in violations if isinstance(each, dict)] if isinstance(violations, list) else []
        if any(_PER_DAY.search(_word(scope.get(name))) for scope in scopes for name in ("quotaId", "quota_limit")):
            yield "quota_per_day"
        if isinstance(detail.get("reason"), str):
            yield detail["reason"].lower()


def _upstream(fields: dict[str, Any], depth: int) -> str:
    """Return a router's message about the provider behind it."""
    metadata = fields.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if not isinstance(raw, str) or not raw:
        return ""
    inner = _decoded(raw) if depth < 2 else None
    return f" ({_read_body(inner, depth + 1).message if inner is not None else raw})"


def _headers_inside(holder: Any) -> dict[str, str]:
    headers = holder.get("headers") if isinstance(holder, dict) else None
    if not isinstance(headers, dict):
        return {}
    return {str(name).lower(): _word(value) for name, value in headers.items()}


def _decoded(text: str) -> Any:
    """Return the error object in a JSON text; None if there is none."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = decode_json(text.encode("utf-8", "replace"))
    except msgspec.DecodeError:
        return None
    return value if isinstance(first := _first(value), dict) and first else None


def _plain(text: str) -> str:
    text = text[:_READ_CHARS]
    if text.lstrip()[:1] != "<":
        return text.strip()[:_MESSAGE_CHARS]
    title = re.search(r"<title>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
    words = title[1] if title else re.sub(r"<[^>]*>", " ", text)
    return f"{HTML_PAGE}{' '.join(words.split())[:200]}"


def _limit_tokens(body: _Body) -> int | None:
    told = body.fields.get("n_ctx")
    if isinstance(told, int) and 1 < told <= MOST_TOKENS:
        return told
    found = LIMIT.search(body.message)
    return next(filter(None, map(tokens_in, found.groups())), None) if found else None
