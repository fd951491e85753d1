"""Path patterns as ignore files know them: without a slash they match the name at any depth, with one the
path from the folder searched; `**` spans folders, `{a,b}` gives alternatives, a leading `!` inverts."""

import re
from collections.abc import Callable

_MAX_ALTERNATIVES = 64
_MAX_CHARS = 1000
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a test for paths with `/`, relative to the folder searched.

    Raises:
        ValueError: more than 64 alternatives; `re.error` for a set that cannot be.
    """
    inverted, plain = pattern.startswith("!"), pattern.removeprefix("!")
    alternatives = [_regex(each) for each in expanded(plain)]
    test = re.compile("|".join(f"(?:{each})" for each in alternatives), re.DOTALL).fullmatch
    return lambda path: (test(path) is not None) is not inverted


def ignore_file(pattern: str) -> str:
    """Return the text of an ignore file that hides all files which `matcher(pattern)` refuses."""
    if pattern.startswith("!"):
        return "".join(f"{_escaped(each)}\n" for each in expanded(pattern[1:]))
    return "*\n!*/\n" + "".join(f"!{_escaped(each)}\n" for each in expanded(pattern))


def expanded(pattern: str) -> list[str]:
    """Return the pattern without braces, once for each alternative.

    Raises:
        ValueError: more than 64 alternatives, or too long.
    """
    if len(pattern) > _MAX_CHARS:
        raise ValueError(f"it has more than {_MAX_CHARS} characters")
    found = [pattern]
    while any(_BRACES.search(each) for each in found):
        found = list(dict.fromkeys(part for each in found for part in _without_first(each)))
        if len(found) > _MAX_ALTERNATIVES:
            raise ValueError(f"it has more than {_MAX_ALTERNATIVES} alternatives")
    return found


def _without_first(pattern: str) -> list[str]:
    """Return the pattern with its first innermost braces replaced by each of their alternatives."""
    braces = _BRACES.search(pattern)
    if braces is None:
        return [pattern]
    head, tail = pattern[: braces.start()], pattern[braces.end() :]
    return [head + part + tail for part in braces.group(1).split(",")]


def _escaped(pattern: str) -> str:
    return f"\\{pattern}" if pattern[:1] in ("#", "!") else pattern


def _regex(pattern: str) -> str:
    """Return a regular expression that needs no more than linear time for each part of the pattern: between two
    wildcards the first fit is as good as any other, so none of them is tried again."""
    anchored = "/" in pattern.rstrip("/")
    parts = pattern.removeprefix("./").lstrip("/").split("/")
    if not anchored:
        return f"(?:.*/)?{'/'.join(map(_name, parts))}"
    first, *blocks = _blocks(parts)
    if not blocks:
        return "/".join(map(_name, first))
    out = "".join(f"{_name(each)}/" for each in first)
    out += "".join(f"(?>(?:[^/]*/)*?{'/'.join(map(_name, block))}/)" for block in blocks[:-1] if block)
    return out + (f"(?:[^/]*/)*?{'/'.join(map(_name, blocks[-1]))}" if blocks[-1] else ".+")


def _blocks(parts: list[str]) -> list[list[str]]:
    """Return the names of a pattern in groups, between which there is `**`."""
    blocks: list[list[str]] = [[]]
    for part in parts:
        if part == "**":
            blocks.append([])
        else:
            blocks[-1].append(part)
    return blocks


def _name(text: str) -> str:
    """Return the regular expression of one name of a path."""
    pieces, at = [""], 0
    while at < len(text):
        if text[at] == "*":
            pieces.append("")
            at += 1
        else:
            piece, at = _piece(text, at)
            pieces[-1] += piece
    first, *rest = pieces
    last = f"[^/]*{rest.pop()}" if rest else ""
    return f"(?>{first}{''.join(f'(?>[^/]*?{piece})' for piece in rest)}{last}(?=/|\\Z))"


def _piece(text: str, at: int) -> tuple[str, int]:
    """Return the regular expression of the next element that is no `*`, and where the one after it begins."""
    char = text[at]
    if char == "?":
        return "[^/]", at + 1
    if char == "\\" and at + 1 < len(text):
        return re.escape(text[at + 1]), at + 2
    if char == "[" and (end := text.find("]", at + 2)) > 0:
        body = text[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
        return f"(?!/)[{'^' + body[1:] if body[0] in '!^' else body}]", end + 1
    return re.escape(char), at + 1
