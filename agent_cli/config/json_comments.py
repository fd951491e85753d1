"""JSON as editors write it: with comments and trailing commas."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from agent_cli.protocol.json_text import decode_json

_TEXT = r'(?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))'
_COMMENT = re.compile(rf"{_TEXT}|//[^\n]*|/\*(?:.*?\*/|.*\Z)", re.DOTALL)
"""An unterminated string or comment extends to the end of the file, so that nothing is scanned twice."""
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
        text = _COMMENT.sub(lambda found: found["text"] or "", data.decode("utf-8-sig"))
        return decode_json(_LAST_COMMA.sub(lambda found: found["text"] or "", text), type=kind)
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        raise msgspec.DecodeError(f"not valid JSON: {error}") from error


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
