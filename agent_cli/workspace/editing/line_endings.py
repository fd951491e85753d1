"""Replace spans of a text with any kind of line endings, even mixed, without changing a character outside the
span. Searches use a view in which every line ending is `\\n`; offsets are mapped back."""

import re
from bisect import bisect_left
from collections.abc import Iterable

from .unified_diff import equal_count

Piece = tuple[int, int, str]
"""Start and end in a text, and the replacement."""


class LineView:
    """A view of a text with `\\n` for every line ending.

    `\\r\\n` and `\\n` end a line; a lone `\\r` does so only in a text without any `\\n`.
    """

    def __init__(self, original: str) -> None:
        self.original = original
        """The text with its own line endings."""
        self._old_mac = "\r" in original and "\n" not in original
        self._ends: list[str] = []
        """All line endings of the original, in order."""
        self._pairs: list[int] = []
        """Offsets in the view of line endings that are two characters in the original."""
        if "\r" in original:
            self._ends = re.findall("\r" if self._old_mac else "\r\n|\n", original)
        self.text = self.normal(original)
        if "\r\n" in self._ends:
            breaks = (found.start() for found in re.finditer("\n", self.text))
            self._pairs = [at for at, end in zip(breaks, self._ends, strict=True) if end == "\r\n"]

    def normal(self, text: str) -> str:
        """Return `text` as it would read in this view."""
        text = text.replace("\r\n", "\n")
        return text.replace("\r", "\n") if self._old_mac else text

    def line_of(self, offset: int) -> int:
        """Return the line number, from 1, of an offset in the view."""
        return self.text.count("\n", 0, offset) + 1

    def replaced(self, pieces: Iterable[Piece]) -> str:
        """Return the original with the pieces of the view (in order, not overlapping) replaced.

        Common characters at both ends of a span and its new text are not changed. Line endings in a new text match
        those they replace, otherwise those of their neighbours.
        """
        out: list[str] = []
        done = counted = line = 0
        for start, end, new in pieces:
            head, tail = _in_common(self.text[start:end], new)
            start, end = start + head, end - tail
            new = new[head : len(new) - tail]
            if self._ends and "\n" in new:  # counted incrementally: there may be very many
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
        """Return `new` with the line endings it replaces: `count` of them, starting at index `first`. If there are
        none, use the ending at index `beside`: that of the line it is inserted into, or of the line before."""
        inside = self._ends[first : first + count]
        default = inside[-1] if inside else self._ends[max(0, min(beside, len(self._ends) - 1))]
        ends = iter(inside)
        return re.sub("\n", lambda _: next(ends, default), new)


def _in_common(old: str, new: str) -> tuple[int, int]:
    """Return the number of equal characters at the start and at the end, without overlap."""
    head = equal_count(old, new) if old[:1] == new[:1] else 0
    old, new = old[head:], new[head:]
    return head, equal_count(old[::-1], new[::-1]) if old[-1:] == new[-1:] else 0


def line_end_of(text: str) -> str:
    """Return the most common line ending of `text`."""
    pairs = text.count("\r\n")
    if pairs * 2 > text.count("\n"):
        return "\r\n"
    return "\r" if "\r" in text and "\n" not in text else "\n"
