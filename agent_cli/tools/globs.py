"""Path patterns as ignore files know them: without a slash they match the name at any depth, with one the
path from the folder searched; `**` spans folders, `{a,b}` gives alternatives, a leading `!` inverts."""

import re
from collections.abc import Callable

_MAX_ALTERNATIVES = 64


def matcher(pattern: str) -> Callable[[str], bool]:
    """A test for paths with `/`, relative to the folder searched.

    Raises:
        ValueError: more than 64 alternatives.
    """
    inverted, plain = pattern.startswith("!"), pattern.removeprefix("!")
    alternatives = [_regex(each) for each in expanded(plain)]
    test = re.compile("|".join(f"(?:{each})" for each in alternatives), re.DOTALL).fullmatch
    return lambda path: (test(path) is not None) is not inverted


def ignore_file(pattern: str) -> str:
    """The text of an ignore file that hides all files which `matcher(pattern)` refuses."""
    if pattern.startswith("!"):
        return "".join(f"{_escaped(each)}\n" for each in expanded(pattern[1:]))
    return "*\n!*/\n" + "".join(f"!{_escaped(each)}\n" for each in expanded(pattern))


def expanded(pattern: str) -> list[str]:
    """The pattern without braces, once for each alternative.

    Raises:
        ValueError: more than 64 alternatives.
    """
    found = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
    if not found:
        return [pattern]
    head, tail = pattern[: found.start()], pattern[found.end() :]
    out = [each for part in found.group(1).split(",") for each in expanded(head + part + tail)]
    if len(out) > _MAX_ALTERNATIVES:
        raise ValueError(f"the pattern has more than {_MAX_ALTERNATIVES} alternatives")
    return list(dict.fromkeys(out))


def _escaped(pattern: str) -> str:
    return f"\\{pattern}" if pattern[:1] in ("#", "!") else pattern


def _regex(pattern: str) -> str:
    anchored = "/" in pattern.rstrip("/")
    pattern = pattern.removeprefix("./").lstrip("/")
    out = "" if anchored else "(?:.*/)?"
    at = 0
    while at < len(pattern):
        piece, at = _piece(pattern, at)
        out += piece
    return out


def _piece(pattern: str, at: int) -> tuple[str, int]:
    """The regular expression of the next element, and where the one after it begins."""
    if pattern.startswith("**/", at):
        return "(?:.*/)?", at + 3
    if pattern.startswith("**", at):
        return ".*", at + 2
    char = pattern[at]
    if char == "*":
        return "[^/]*", at + 1
    if char == "?":
        return "[^/]", at + 1
    if char == "\\" and at + 1 < len(pattern):
        return re.escape(pattern[at + 1]), at + 2
    if char == "[" and (end := pattern.find("]", at + 2)) > 0:
        body = pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
        return f"(?!/)[{'^' + body[1:] if body[0] in '!^' else body}]", end + 1
    return re.escape(char), at + 1
