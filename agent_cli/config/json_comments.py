"""JSON as editors write it: with comments and trailing commas."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from agent_cli.protocol.json_text import decode_json, place_of_error

_TEXT = r'(?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))'
_COMMENT = re.compile(rf"{_TEXT}|//[^\n]*|/\*(?:.*?\*/|.*\Z)", re.DOTALL)
"""An unterminated string or comment extends to the end of the file, so that nothing is scanned twice."""
_IN_LINE = re.compile(r"[^\n]")
_CUT_OFF = "Input data was truncated"
DEEPEST = 64
"""Most levels of a value."""
_LAST_COMMA = re.compile(rf"{_TEXT}|,(?=\s*[}}\]])", re.DOTALL)


def json_with_comments(data: bytes, kind: Any = Any) -> Any:
    """Decode JSON that may contain comments and trailing commas.

    Raises:
        msgspec.DecodeError: it is invalid, not of this type, or nested so deeply that its readers could fail.
    """
    found = _decoded(data, kind)
    if is_deep(found):
        raise msgspec.DecodeError(f"it is nested more than {DEEPEST} levels deep")
    return found


def _decoded(data: bytes, kind: Any) -> Any:
    try:
        return decode_json(data, type=kind)
    except msgspec.DecodeError:
        pass
    try:
        text = _COMMENT.sub(_blank, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"not UTF-8 text (byte {error.start})") from error
    text = _LAST_COMMA.sub(_blank, text)
    try:
        return decode_json(text, type=kind)
    except msgspec.DecodeError as error:
        raise msgspec.DecodeError(f"not valid JSON: {_problem(str(error), text.encode())}") from error


def _blank(found: "re.Match[str]") -> str:
    """Return a text as it is, and blanks for anything else, so that lines and columns stay."""
    return found["text"] or _IN_LINE.sub(" ", found[0])


def _problem(message: str, data: bytes) -> str:
    if message == _CUT_OFF:
        message = f"it ends too early (byte {len(data.rstrip())})"
    if (found := place_of_error(message, data)) is None:
        return message
    line, column, reason = found
    return f"line {line}, column {column}: {reason}"


def is_deep(value: Any) -> bool:
    """Return True if a value has more levels than settings have: the files come with repositories, and whoever
    walks through their values must not fail."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
