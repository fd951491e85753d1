"""Path patterns of rules: conversion to regular expressions, and a test whether two can match the same file. No
disk access.
"""

import re
from functools import lru_cache

from agent_cli.protocol.lazy_regex import lazy_regex

_TOKEN = lazy_regex(r"\*\*/|\*\*|.", re.DOTALL)
_SHELL_TOKEN = lazy_regex(r"\*+|.", re.DOTALL)
_WILD = ("?", "*", "**", "**/")
_REGEX = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def regex_of(pattern: str) -> str:
    """Convert a pattern to a regular expression: `*` and `?` stop at `/`, `**` crosses folders."""
    return "".join(_REGEX.get(token) or re.escape(token) for token in _TOKEN.findall(pattern))


@lru_cache(maxsize=1024)
def globs_meet(word: str, pattern: str, below: bool = True) -> bool:
    """Return True if some path matches both a shell glob and a rule pattern, or is `below` one that does.

    In `word`, wildcards stop at `/` and never match a leading dot; the text after a `[` may match anything. In
    `pattern`, `**` crosses folders. Both are absolute; case is ignored.
    """
    head, bracket, _ = word.lower().partition("[")
    left = ["*" if token[0] == "*" else token for token in _SHELL_TOKEN.findall(head)] + ["**"] * bool(bracket)
    right = _TOKEN.findall(pattern.lower())
    seen: set[tuple[int, int, bool]] = set()
    todo = [(0, 0, True)]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        at, to, _ = state
        if to == len(right) and (at == len(left) or (below and left[at] == "/")):
            return True
        todo += _skips(left, right, state) + _steps(left, right, state)
    return False


def _skips(left: list[str], right: list[str], state: tuple[int, int, bool]) -> list[tuple[int, int, bool]]:
    at, to, start = state
    skips = [(at + 1, to, start)] if at < len(left) and left[at] in ("*", "**") else []
    optional = ("*", "**", "**/") if start else ("*", "**")
    return skips + ([(at, to + 1, start)] if to < len(right) and right[to] in optional else [])


def _steps(left: list[str], right: list[str], state: tuple[int, int, bool]) -> list[tuple[int, int, bool]]:
    """Return the states after one more character accepted by both sides."""
    at, to, start = state
    if at == len(left) or to == len(right):
        return []
    mine, theirs = left[at], right[to]
    steps = []
    for char in {token for token in (mine, theirs) if token not in _WILD} or {"x", "/"}:
        if not _takes(mine, char) or not _takes(theirs, char) or (char == "." and start and mine in ("?", "*")):
            continue
        after = at if mine in ("*", "**") else at + 1
        steps.append((after, to if theirs in ("*", "**", "**/") else to + 1, char == "/"))
        if theirs == "**/" and char == "/":
            steps.append((after, to + 1, True))
    return steps


def _takes(token: str, char: str) -> bool:
    if token in ("?", "*"):
        return char != "/"
    return token in ("**", "**/") or token == char
