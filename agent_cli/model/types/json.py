"""JSON objects from providers, and numbers in their texts."""

from typing import Any

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


def text_of(value: Any) -> str:
    """Return a field that should be a string; empty if it is not."""
    return value if isinstance(value, str) else ""


def object_of(value: Any) -> Json:
    """Return a field that should be an object; empty if it is not."""
    return value if isinstance(value, dict) else {}
