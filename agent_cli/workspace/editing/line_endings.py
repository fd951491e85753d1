"""Replacing spans of a text whose line ends may be of any kind, mixed even, without touching a character
outside the span. Searching happens in a view where every line end is `\\n`; offsets are mapped back."""

import re
from bisect import bisect_left
from collections.abc import Iterable

from .unified_diff import equal_count

Piece = tuple[int, int, str]
"""Start and end in a text, and what goes there instead."""


class LineView:
    """A text seen with `\\n` for every line end.

    `\\r\\n` and `\\n` end a line; a lone `\\r` only does in a text that has no `\\n` at all.
    """

    def __init__(self, original: str) -> None:
        self.original = original
        """With its own line ends."""
        self._old_mac = "\r" in original and "\n" not in original
        self._ends: list[str] = []
        """Every line end of the original, in order."""
        self._pairs: list[int] = []
        """Offsets, in the view, of the line ends that are two characters long in the original."""
        if "\r" in original:
            self._ends = re.findall("\r" if self._old_mac else "\r\n|\n", original)
        self.text = self.normal(original)
        if "\r\n" in self._ends:
            breaks = (found.start() for found in re.finditer("\n", self.text))
            self._pairs = [at for at, end in zip(breaks, self._ends, strict=True) if end == "\r\n"]

    def normal(self, text: str) -> str:
        """`text` as it would read in this view."""
        return text.replace("\r", "\n") if self._old_mac else text.replace("\r\n", "\n")

    def line_of(self, offset: int) -> int:
        """Return the number, from 1, of the line that holds an offset of the view."""
        return self.text.count("\n", 0, offset) + 1

    def replaced(self, pieces: Iterable[Piece]) -> str:
        """Return the original with each piece of the view (in order, apart) in its place.

        What a span and its new text have in common at their ends is not touched either; line ends in a new
        text take the kind of those they replace, then of their neighbours.
        """
        out: list[str] = []
        done = counted = line = 0
        for start, end, new in pieces:
            head, tail = _in_common(self.text[start:end], new)
            start, end = start + head, end - tail
            new = new[head : len(new) - tail]
            if self._ends and "\n" in new:  # counted on from piece to piece, since there may be very many
                line += self.text.count("\n", counted, start)
                counted = start
                amid = start > 0 and self.text[start - 1] != "\n"
                new = self._with_ends(new, line, self.text.count("\n", start, end), line if amid else line - 1)
            out += (self.original[done : self._place(start)], new)
            done = self._place(end)
        return "".join([*out, self.original[done:]])

    def _place(self, offset: int) -> int:
        return offset + bisect_left(self._pairs, offset)

    def _with_ends(self, new: str, first: int, count: int, beside: int) -> str:
        """`new` in place of `count` line ends from the given one on; where there is none, its ends are like the
        one `beside` it: of the line it is put into, else of the line before."""
        inside = self._ends[first : first + count]
        default = inside[-1] if inside else self._ends[max(0, min(beside, len(self._ends) - 1))]
        ends = iter(inside)
        return re.sub("\n", lambda _: next(ends, default), new)


def _in_common(old: str, new: str) -> tuple[int, int]:
    """Return how many characters at the start and at the end are the same, without overlap."""
    head = equal_count(old, new) if old[:1] == new[:1] else 0
    old, new = old[head:], new[head:]
    return head, equal_count(old[::-1], new[::-1]) if old[-1:] == new[-1:] else 0


def line_end_of(text: str) -> str:
    """Return the line end that most lines of `text` have."""
    pairs = text.count("\r\n")
    if pairs * 2 > text.count("\n"):
        return "\r\n"
    return "\r" if "\r" in text and "\n" not in text else "\n"
