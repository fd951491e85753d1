"""JSON text as other programs write it, made valid where a parser would refuse all of it for one character."""

import re

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)", re.DOTALL
)
_HALF_BYTES = 6


def mended(text: bytes) -> bytes:
    """Return JSON text that every parser accepts: half of a character, as programs write that cut texts by UTF-16
    units, and bytes that are not UTF-8 become U+FFFD."""
    if not text.isascii():
        text = text.decode("utf-8", "replace").encode()
    return _ESCAPE.sub(_whole, text) if _SURROGATE.search(text) else text


def _whole(escape: "re.Match[bytes]") -> bytes:
    found = escape[0]
    is_half = len(found) == _HALF_BYTES and _SURROGATE.fullmatch(found)
    return rb"\ufffd" if is_half else found
