"""JSON as editors write it: with comments and trailing commas."""

import re
from typing import Any

import msgspec

_TEXT = r'(?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))'
_COMMENT = re.compile(rf"{_TEXT}|//[^\n]*|/\*(?:.*?\*/|.*\Z)", re.DOTALL)
"""An unterminated string or comment extends to the end of the file, so that nothing is scanned twice."""
_LAST_COMMA = re.compile(rf"{_TEXT}|,(?=\s*[}}\]])", re.DOTALL)


def json_with_comments(data: bytes, kind: Any = Any) -> Any:
    """Decode JSON that may contain comments and trailing commas.

    Raises:
        msgspec.DecodeError: it is invalid, or not of this type.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        text = _COMMENT.sub(lambda found: found["text"] or "", data.decode("utf-8-sig"))
        return msgspec.json.decode(_LAST_COMMA.sub(lambda found: found["text"] or "", text), type=kind)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise msgspec.DecodeError(f"not valid JSON: {error}") from error
