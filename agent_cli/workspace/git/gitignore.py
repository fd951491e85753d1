"""Patterns of ignore files with git's semantics, matched in time linear in the path whatever the pattern. The
files come with a repository, and regular expressions built from them could be made to take forever."""

import re
from collections.abc import Callable

import msgspec

_CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": " \\t", "digit": "0-9", "lower": "a-z",
    "punct": "!-/:-@\\[-`{-~", "space": "\\s", "upper": "A-Z", "xdigit": "0-9a-fA-F",
}  # fmt: skip
_STAR = "*"
_LONGEST = 1000
_MOST_SEGMENTS = 100

_Token = str | re.Pattern[str] | None
"""A literal character, a character set, or None for any character or `*`."""


class Segment(msgspec.Struct, frozen=True):
    """Pattern for one name between slashes."""

    plain: str | None
    """The name itself, for a segment without wildcards."""
    tokens: tuple[tuple[bool, _Token], ...] = ()
    """Pairs (is it `*`, otherwise what the character must be)."""

    def matches(self, name: str) -> bool:
        """Return True if a name matches. Backtracking to the last `*` is sufficient."""
        if self.plain is not None:
            return name == self.plain
        at, token, star, resume = 0, 0, -1, 0
        while at < len(name):
            if token < len(self.tokens) and self.tokens[token][0]:
                star, resume, token = token, at, token + 1
            elif token < len(self.tokens) and _fits(self.tokens[token][1], name[at]):
                at, token = at + 1, token + 1
            elif star >= 0:
                resume += 1
                at, token = resume, star + 1
            else:
                return False
        return all(is_star for is_star, _ in self.tokens[token:])


def _fits(token: _Token, char: str) -> bool:
    if token is None or isinstance(token, str):
        return token is None or token == char
    return token.match(char) is not None


class Pattern(msgspec.Struct, frozen=True):
    """One line of an ignore file."""

    line: int
    """Line number, from 1."""
    opens: bool
    """True if it began with `!`."""
    folders_only: bool
    anchored: bool
    """True if it applies to the whole path below the file's folder, otherwise to the last name."""
    segments: tuple[Segment | None, ...]
    """None for `**`."""

    def matches(self, names: list[str], is_folder: bool) -> bool:
        """Return True if the pattern matches exactly this path, given as names below the file's folder."""
        if self.folders_only and not is_folder:
            return False
        if not self.anchored:
            segment = self.segments[0]
            return segment is None or segment.matches(names[-1])
        states = self._closed({0})
        for name in names:
            states = self._closed({later for state in states for later in self._after(state, name)})
        return len(self.segments) in states

    def _after(self, state: int, name: str) -> tuple[int, ...]:
        if state >= len(self.segments):
            return ()
        segment = self.segments[state]
        if segment is None:
            return (state, state + 1) if state + 1 == len(self.segments) else (state,)
        return (state + 1,) if segment.matches(name) else ()

    def _closed(self, states: set[int]) -> set[int]:
        """Add the states reached when `**` matches no folder, which is not allowed at the end."""
        for state in sorted(states):
            while state + 1 < len(self.segments) and self.segments[state] is None:
                state += 1
                states.add(state)
        return states


def parse(text: str, *forms: Callable[[str], str]) -> tuple[Pattern, ...]:
    """Return the patterns of a file, in order, each followed by those of its further `forms` that differ.

    Raises:
        ValueError: a line is not a pattern or too long; the message has its number.
    """
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    found = (
        pattern_of(each, number)
        for number, line in enumerate(lines, 1)
        for each in dict.fromkeys((line, *(form(line) for form in forms)))
    )
    return tuple(pattern for pattern in found if pattern is not None)


def deciding(patterns: tuple[Pattern, ...], names: list[str], is_folder: bool) -> Pattern | None:
    """Return the last pattern that matches a path."""
    return next((each for each in reversed(patterns) if each.matches(names, is_folder)), None)


def pattern_of(line: str, number: int = 1) -> Pattern | None:
    """Return the pattern of one line; None for a comment or an empty line.

    Raises:
        ValueError: as in `parse`.
    """
    text = re.sub(r"(?<!\\)((?:\\\\)*) +$", r"\1", line)
    if not text or text.startswith("#"):
        return None
    opens = text.startswith("!")
    text = text[1:] if opens else text
    folders_only = text.endswith("/")
    text = text.removesuffix("/")
    anchored = "/" in text
    text = text.removeprefix("/")
    if not text:
        raise ValueError(f"line {number} is not a pattern")
    if len(text) > _LONGEST:
        raise ValueError(f"line {number} is longer than {_LONGEST:,} characters")
    parts = text.split("/") if anchored else [text]
    parts = [
        part for at, part in enumerate(parts) if not (anchored and part == "**" and parts[at - 1 : at] == ["**"])
    ]
    if len(parts) > _MOST_SEGMENTS:
        raise ValueError(f"line {number} names more than {_MOST_SEGMENTS} folders")
    try:
        segments = tuple(None if part == "**" and anchored else _segment(part) for part in parts)
    except (ValueError, re.error) as error:
        raise ValueError(f"line {number} is not a pattern") from error
    return Pattern(number, opens, folders_only, anchored, segments)


def _segment(text: str) -> Segment:
    if not any(char in text for char in "*?[\\"):
        return Segment(text)
    tokens: list[tuple[bool, _Token]] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == _STAR:
            if not (tokens and tokens[-1][0]):
                tokens.append((True, None))
        elif char == "?":
            tokens.append((False, None))
        elif char == "[":
            at = _set(text, at, tokens)
        elif char == "\\":
            at += 1
            tokens.append((False, _escaped(text, at)))
        else:
            tokens.append((False, char))
        at += 1
    return Segment(None, tuple(tokens))


def _escaped(text: str, at: int) -> str:
    if at >= len(text):
        raise ValueError("a backslash ends it")
    return text[at]


def _set(text: str, start: int, tokens: list[tuple[bool, _Token]]) -> int:
    """Parse `[…]`, which begins at `start`, and return the position of its end."""
    at = start + 1
    inverted = text[at : at + 1] in ("!", "^")
    at += inverted
    body, first = "", True
    while first or text[at : at + 1] != "]":
        first = False
        if at >= len(text):
            raise ValueError("a bracket is not closed")
        if named := re.compile(r"\[:([a-z]+):\]").match(text, at):
            body += _CLASSES.get(named.group(1), "")
            at = named.end()
            continue
        low, at = _in_set(text, at)
        if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in ("]", ""):
            high, at = _in_set(text, at + 1)
            body += f"{low}-{high}"
        else:
            body += low
    tokens.append((False, re.compile(f"[{'^' if inverted else ''}{body}]", re.DOTALL)))
    return at


def _in_set(text: str, at: int) -> tuple[str, int]:
    """Return the character at a position of a set, escaped for a regular expression, and the position after it."""
    at += text[at] == "\\"
    return re.escape(_escaped(text, at)), at + 1
