"""Path patterns of rules: whether one covers a path, and whether two can match the same file. Paths come from
models and strangers, so no pattern may take more than linear time on one. No disk access."""

import re
from collections.abc import Callable
from functools import lru_cache

from agent_cli.protocol.lazy_regex import lazy_regex

_TOKEN = lazy_regex(r"\*\*/|\*\*|.", re.DOTALL)
_SHELL_TOKEN = lazy_regex(r"\*+|.", re.DOTALL)
_WILD = ("?", "*", "**", "**/")
_MOST_BACKTRACKED = 2
"""Most wildcards left to a regular expression, which tries every combination of their ends."""
_REGEX = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def regex_of(pattern: str) -> str:
    """Convert a pattern to a regular expression: `*` and `?` stop at `/`, `**` crosses folders."""
    return "".join(_REGEX.get(token) or re.escape(token) for token in _TOKEN.findall(pattern))


@lru_cache(maxsize=1024)
def covering(pattern: str, fold: bool) -> Callable[[str], object]:
    """Return a test whether a pattern covers a path, itself or as a folder above it. `fold`: ignore case."""
    tokens = _TOKEN.findall(pattern)
    if sum(token in _REGEX for token in tokens) <= _MOST_BACKTRACKED:
        return re.compile(regex_of(pattern) + "(?:/.*)?", re.DOTALL | (re.IGNORECASE if fold else 0)).fullmatch
    return _Automaton(tokens, fold).covers


class _Automaton:
    """Matches by following all possible states at once (Thompson 1968), in time linear in the path. Bit N of a set
    of states means that the first N tokens have matched."""

    def __init__(self, tokens: list[str], fold: bool) -> None:
        # `**/` becomes two states: before its first character, where it may also match nothing, and within.
        self._tokens = [part for token in tokens for part in ((token, "within") if token == "**/" else (token,))]
        self._end = 1 << len(self._tokens)
        self._flags = re.DOTALL | (re.IGNORECASE if fold else 0)
        self._stays = self._bits("**", "within"), self._bits("*")
        self._moves = self._bits("**/"), self._bits("?")
        self._skips = self._bits("*", "**"), self._bits("**/")
        self._within = self._bits("within")
        self._literals: dict[str, int] = {}

    def covers(self, path: str) -> bool:
        """Return True if the pattern matches the path or a folder above it."""
        states = self._closed(1)
        for char in path:
            if char == "/" and states & self._end:
                return True
            states = self._closed(self._after(states, char))
        return bool(states & self._end)

    def _after(self, states: int, char: str) -> int:
        (always, in_name), (enters, one) = self._stays, self._moves
        after = states & always | (states & (enters | self._taking(char))) << 1
        if char != "/":
            return after | states & in_name | (states & one) << 1
        return after | (states & enters) << 2 | (states & self._within) << 1

    def _closed(self, states: int) -> int:
        """Add the states reached without a character."""
        one, two = self._skips
        while (more := states | (states & one) << 1 | (states & two) << 2) != states:
            states = more
        return states

    def _taking(self, char: str) -> int:
        """Return the states whose token is a literal that matches a character."""
        if char not in self._literals:
            fits = {token for token in self._tokens if len(token) == 1 and token not in _WILD}
            found = [token for token in fits if re.fullmatch(re.escape(token), char, self._flags)]
            self._literals[char] = self._bits(*found)
        return self._literals[char]

    def _bits(self, *tokens: str) -> int:
        return sum(1 << at for at, token in enumerate(self._tokens) if token in tokens)


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
