"""Settings as other programs write them: JSON with comments and trailing commas, and TOML. The files come with
repositories and are read before anybody is asked, so none may keep the program busy, or be too deep for what is
done with it later."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.fs.files import read_regular
from agent_cli.protocol.json_text import decode_json, place_of_error

_TEXT = r'(?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))'
_COMMENT = re.compile(rf"{_TEXT}|//[^\n]*|/\*(?:.*?\*/|.*\Z)", re.DOTALL)
"""An unterminated string or comment extends to the end of the file, so that nothing is scanned twice."""
_IN_LINE = re.compile(r"[^\n]")
_CUT_OFF = "Input data was truncated"
DEEPEST = 64
"""Most levels of a value."""
_LAST_COMMA = re.compile(rf"{_TEXT}|,(?=\s*[}}\]])", re.DOTALL)
_MOST_PARTS = 64
_NAME = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_NAME}[ \t]*+\.[ \t]*+){{{_MOST_PARTS}}}")
"""The library needs quadratic time for the parts of a key."""


def settings_in(path: Path, most_bytes: int) -> dict[str, Any]:
    """Return the settings in a file, TOML if its name ends in `.toml`; none if it is missing, larger, or cannot be
    read."""
    try:
        data = read_regular(path, most_bytes + 1, follow=True)
        if len(data) > most_bytes:
            return {}
        found = parse_toml(data) if path.suffix == ".toml" else json_with_comments(data)
    except (OSError, ValueError, msgspec.DecodeError):
        return {}
    return found if isinstance(found, dict) else {}


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


def parse_toml(data: bytes) -> dict[str, Any]:
    """Return the content of a file.

    Raises:
        ValueError: it is not valid, or nested too deeply.
    """
    import tomllib

    text = data.decode("utf-8-sig")
    if _LONG_KEY.search(text):
        raise ValueError(f"it has a key of more than {_MOST_PARTS} parts")
    try:
        found = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if is_deep(found):
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    return found
