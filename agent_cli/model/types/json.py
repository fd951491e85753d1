"""JSON objects from providers, and numbers in their texts."""

from typing import Any

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.usage import MOST_TOKENS

Json = dict[str, Any]


def tokens_in(digits: str | None) -> int | None:
    """Parse a token count such as `131,072`; None if invalid or implausible."""
    plain = (digits or "").replace(",", "")
    count = int(plain) if plain.isascii() and plain.isdecimal() and len(plain) < 12 else 0
    return count if 0 < count <= MOST_TOKENS else None


def join_surrogates(text: str) -> str:
    """Return the text with adjacent surrogate halves joined and lone ones replaced with U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def written_arguments(text: str) -> str:
    """Return the arguments of a complete call as valid JSON if their meaning is clear. Some models write line
    breaks and tabs into strings as they are, or the whole object as a string; everything else is unchanged."""
    try:
        value = decode_json(text)
    except msgspec.DecodeError:
        value = _with_raw_controls(text)
    else:
        if not isinstance(value, str):
            return text
        value = _with_raw_controls(value)
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else text


def _with_raw_controls(text: str) -> Any:
    import json

    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def text_of(value: Any) -> str:
    """Return a field that should be a string; empty if it is not."""
    return value if isinstance(value, str) else ""


def object_of(value: Any) -> Json:
    """Return a field that should be an object; empty if it is not."""
    return value if isinstance(value, dict) else {}
