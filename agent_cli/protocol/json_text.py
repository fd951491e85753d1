"""Decode and repair JSON that others wrote: files, servers, models, editors."""

import re
from typing import Any, TypeVar, overload

import msgspec

from .lazy_regex import lazy_regex

T = TypeVar("T")
_SURROGATE = lazy_regex(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
"""One half of a pair."""
_ESCAPE = lazy_regex(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)", re.DOTALL
)
"""Any escape: a pair is matched as a whole, and `\\\\` so that what follows is not taken for one."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class NestedTooDeeplyError(msgspec.DecodeError):
    """JSON has more levels than the parser can read."""


@overload
def decode_json(data: bytes | str, type: type[T]) -> T: ...


@overload
def decode_json(data: bytes | str, type: Any = ...) -> Any: ...


def decode_json(data: bytes | str, type: Any = Any) -> Any:
    """Decode a JSON text as a value of a type.

    `msgspec.json.decode` also raises what readers forget: `RecursionError`, and `UnicodeError` for bytes that are
    not UTF-8 and for lone surrogates. Here each is a `msgspec.DecodeError`.

    Raises:
        NestedTooDeeplyError: it has too many levels.
        msgspec.DecodeError: it is not JSON, or not a value of this type.
    """
    try:
        return msgspec.json.decode(data, type=type)
    except RecursionError as error:
        raise NestedTooDeeplyError("JSON is nested too deeply") from error
    except UnicodeError as error:
        raise msgspec.DecodeError(f"JSON is not valid UTF-8: {error}") from error


def decode_lenient_json(data: bytes | str) -> Any:
    """Decode a JSON text, with `NaN` and escaped lone surrogates, which some programs write.

    Raises:
        NestedTooDeeplyError: it has too many levels.
        msgspec.DecodeError: it is not JSON.
    """
    try:
        return msgspec.json.decode(data)  # directly: called for each piece of a streamed answer
    except (ValueError, RecursionError):
        pass
    import json

    try:
        return json.loads(data)
    except RecursionError as error:
        raise NestedTooDeeplyError("JSON is nested too deeply") from error
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error


def place_of_error(message: str, data: bytes) -> tuple[int, int, str] | None:
    """Return the line, the column and the reason in a message of msgspec, which counts bytes; None if it names no
    place."""
    reason, found, rest = message.removeprefix("JSON is malformed: ").rpartition(" (byte ")
    if not found:
        return None
    lines = data[: int(rest.rstrip(")"))].decode("utf-8", "replace").split("\n")
    return len(lines), len(lines[-1]) + 1, reason


def repair_json(text: bytes) -> bytes:
    """Replace what no parser accepts with U+FFFD: bytes that are not UTF-8, and escaped lone surrogates, which
    programs write that cut texts by UTF-16 units."""
    if not text.isascii():
        text = text.decode("utf-8", "replace").encode()
    return _ESCAPE.sub(_whole, text) if _SURROGATE.search(text) else text


def _whole(escape: "re.Match[bytes]") -> bytes:
    return rb"\ufffd" if _SURROGATE.fullmatch(escape[0]) else escape[0]
