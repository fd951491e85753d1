"""Text styled by a theme's roles, before output: joined, wrapped and painted.

Line breaks are chosen here, because text that users may want to copy, such as an address or a path, must not be
broken in the middle. A frame draws a lot of it, so a text is a list of runs, and the styles of roles are computed
once.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, Self

from . import lines
from .links import linked
from .theme import Role, Theme

_WORD = re.compile(r"( *)([^ ]+)")
_NO_BLANK = re.compile(r"[^ ]")
_SHAPES = frozenset({1, 2, 3, 4, 7, 9})
_SHOWN_ON_BLANKS = frozenset({4, 7})
"""Underline and reverse."""


class Look(NamedTuple):
    """The style of a run of text."""

    codes: str = ""
    """SGR codes; empty for the terminal's default colour."""
    link: str = ""
    """The target that the terminal opens."""
    shows_blanks: bool = False


PLAIN = Look()
Run = tuple[str, Look]


def look(theme: Theme, *roles: Role) -> Look:
    """Return the combined style of several roles."""
    return _look(tuple(theme.codes.get(role, "") for role in roles))


@lru_cache(maxsize=512)
def _look(codes: tuple[str, ...]) -> Look:
    """Return the SGR attributes of all, and the last foreground and background colours."""
    shapes: set[int] = set()
    colour = behind = ""
    for each in codes:
        left = [int(code) for code in each.split(";") if code]
        while left:
            size = 1 if left[0] not in (38, 48) else 3 if left[1] == 5 else 5
            code, said = left[0], ";".join(map(str, left[:size]))
            left = left[size:]
            if code in _SHAPES:
                shapes.add(code)
            elif 40 <= code <= 49 or code >= 100:
                behind = said
            else:
                colour = said
    found = ";".join(filter(None, (*map(str, sorted(shapes)), colour, behind)))
    return Look(found, shows_blanks=not shapes.isdisjoint(_SHOWN_ON_BLANKS))


class StyledText:
    """A list of styled runs of text."""

    __slots__ = ("runs",)

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self.runs = [run for run in runs if run[0]]

    @classmethod
    def of(cls, text: str, look: Look = PLAIN) -> Self:
        """Return a text with a single run."""
        return cls(((text, look),))

    @property
    def plain(self) -> str:
        """The text without styles."""
        runs = self.runs
        return runs[0][0] if len(runs) == 1 else "".join([text for text, _ in runs])

    def append(self, text: str, look: Look) -> None:
        """Append a run."""
        if text:
            self.runs.append((text, look))

    def link(self, first: int, target: str) -> None:
        """Link the runs from index `first` on to a target."""
        self.runs[first:] = [(text, look._replace(link=target)) for text, look in self.runs[first:]]

    def __add__(self, other: "StyledText") -> "StyledText":
        return StyledText((*self.runs, *other.runs))

    def divide(self, places: Iterable[int], skipped: int = 0) -> list["StyledText"]:
        """Split at `places`, ascending character positions; at each, `skipped` characters are dropped."""
        parts: list[StyledText] = []
        rest = self.runs[::-1]
        at = 0
        for place in places:
            parts.append(StyledText(_taken(rest, place - at)))
            _taken(rest, skipped)
            at = place + skipped
        return [*parts, StyledText(rest[::-1])]

    def strip_end(self) -> None:
        """Remove trailing blanks."""
        runs = self.runs
        while runs:
            text, look = runs[-1]
            if stripped := text.rstrip():
                runs[-1] = (stripped, look)
                return
            runs.pop()


def _taken(rest: list[Run], count: int) -> list[Run]:
    """Take `count` characters from a reversed list of runs."""
    found: list[Run] = []
    while rest and count > 0:
        text, look = rest.pop()
        found.append((text[:count], look))
        if len(text) > count:
            rest.append((text[count:], look))
        count -= len(text)
    return found


def row(text: StyledText) -> str:
    """Return a line for the terminal, without trailing blanks."""
    runs: list[Run] = []
    for part, look in text.runs:
        if runs and runs[-1][1] == look:
            runs[-1] = (runs[-1][0] + part, look)
        else:
            runs.append((part, look))
    while runs and not runs[-1][0].strip() and not runs[-1][1].shows_blanks:
        runs.pop()
    if runs:
        runs[-1] = (runs[-1][0].rstrip(), runs[-1][1])
    return "".join([_painted(part, look) if look != PLAIN else part for part, look in runs])


def _painted(text: str, look: Look) -> str:
    painted = f"\x1b[{look.codes}m{text}\x1b[0m" if look.codes and text else text
    return linked(painted, look.link) if look.link else painted


def wrap_text(text: StyledText, width: int, fold: bool = False) -> list[StyledText]:
    """Return lines of at most `width` columns; a longer word has its own line or, with `fold`, several."""
    plain = text.plain
    parts = [StyledText(text.runs)]
    if "\n" in plain:
        breaks = [at for at, sign in enumerate(plain) if sign == "\n"]
        parts = text.divide(breaks, skipped=1)
    found: list[StyledText] = []
    for part in parts:
        ends = _ends(part.plain, width, fold)
        found += part.divide(ends) if ends else (part,)
    for each in found:
        each.strip_end()
    return found


def _ends(plain: str, width: int, fold: bool) -> list[int]:
    """Return the positions of line ends, in characters."""
    if plain.isascii() and "\t" not in plain:
        if len(plain) <= width:
            return []
        if not fold:
            return _ascii_ends(plain, width)
    found: list[int] = []
    used = 0
    for match in _WORD.finditer(plain):
        at, gap = match.start(2), len(match[1])
        for part in lines.atoms(match[2]):
            own = lines.cells(part)
            if used and used + gap + own > width:
                found.append(at)
                used = gap = 0
            if own > width and (fold or not part.isascii()):
                used = _folded(part, at, used, width, found)
            else:
                used += gap + own
            at, gap = at + len(part), 0
    return found


def _ascii_ends(plain: str, width: int) -> list[int]:
    """Return the positions of line ends if each character takes one column and words stay whole."""
    found: list[int] = []
    size = len(plain.rstrip(" "))
    start = 0
    word = _NO_BLANK.search(plain)
    while word is not None and size - start > width:
        blank = plain.rfind(" ", word.start(), start + width + 1)
        if blank < 0:  # not even the first word fits
            blank = plain.find(" ", word.start())
        word = _NO_BLANK.search(plain, blank) if 0 <= blank < size else None
        if word is not None:
            start = word.start()
            found.append(start)
    return found


def _folded(part: str, at: int, used: int, width: int, found: list[int]) -> int:
    """Break a word anywhere; return the width used of its last line, in columns."""
    for sign, own in lines.graphemes(part):
        if used and used + own > width:
            found.append(at)
            used = 0
        used, at = used + own, at + len(sign)
    return used
