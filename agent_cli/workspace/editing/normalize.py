"""Fold texts for comparison: blanks at line ends, typography and escapes, with a mapping of every offset to the
original. Matching is then a plain search in the folded text."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable

import msgspec

Segment = tuple[int, int, int, int]
"""A folded piece: start and end in the folded text, start and end in the original."""


class NormalizedText(msgspec.Struct, frozen=True):
    """A folded text with its folded pieces. Everything between the segments is as in the original."""

    text: str
    segments: tuple[Segment, ...] = ()

    def start(self, offset: int) -> int | None:
        """Return the original offset for the start of a span, excluding text dropped just before it; None inside a
        folded piece."""
        return self._original(offset, after_dropped=True)

    def end(self, offset: int) -> int | None:
        """Return the original offset for the end of a span, excluding text dropped just after it; None inside a
        folded piece."""
        return self._original(offset, after_dropped=False)

    def folded(self, offset: int) -> int | None:
        """Return the folded offset of an original one; None inside a folded piece."""
        at = bisect_right(self.segments, offset, key=lambda segment: segment[2])
        if not at:
            return offset
        folded_start, folded_end, start, end = self.segments[at - 1]
        if offset >= end:
            return folded_end + offset - end
        return folded_start if offset == start or folded_start == folded_end else None

    def _original(self, offset: int, *, after_dropped: bool) -> int | None:
        at = bisect_right(self.segments, offset, key=lambda segment: segment[0])
        if not after_dropped:
            while at and self.segments[at - 1][:2] == (offset, offset):
                at -= 1
        if not at:
            return offset
        _, folded_end, _, original_end = self.segments[at - 1]
        if offset < folded_end:
            inside = self.segments[at - 1]
            return inside[2] if offset == inside[0] else None
        return original_end + offset - folded_end


Fold = Callable[[str], NormalizedText]

_LINE_END_BLANKS = re.compile(r"(?<![ \t])[ \t]++(?=\n|\Z)")

_WIDE_BLANKS = re.compile(r"(?<=\S)(?: [ \t]+|\t[ \t]*)(?=\S)")

_TWINS = {
    **dict.fromkeys("‘’‚‛′´", "'"),
    **dict.fromkeys("“”„‟″", '"'),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u202f\u3000", " "),
    **dict.fromkeys("\u200b\ufeff\u00ad\u2060", ""),
    "…": "...",
}
"""Characters that models confuse with their plain counterparts, in either direction."""
_PAIRED = str.maketrans({char: plain for char, plain in _TWINS.items() if len(plain) == 1})
"""Single-character replacements, which keep all offsets."""
_UNPAIRED = "".join(re.escape(char) for char, plain in _TWINS.items() if len(plain) != 1)
TYPOGRAPHIC = frozenset(char for char, plain in _TWINS.items() if plain)
_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u064b-\u065f\u093c\u3099\u309a"
_LOOSE = re.compile(
    rf"[\u1100-\u115f][\u1160-\u11a7][\u11a8-\u11ff]?|.[{_MARKS}]+|[\u2126\u212a\u212b\uf900-\ufaff]"
    rf"|[{_UNPAIRED}]|(?<![ \t])[ \t]++(?=\n|\Z)"
)
_ESCAPES = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\'": "'", "\\\\": "\\", "\\`": "`"}
_ESCAPED = re.compile(r"""\\[nt"'`\\]|(?<![ \t])[ \t]++(?=\n|\Z)""")


def line_end_blanks(text: str) -> NormalizedText:
    """Remove blanks before line endings and at the end."""
    return _folded(text, _LINE_END_BLANKS, lambda found: "")


def wide_blanks(text: str) -> NormalizedText:
    """Reduce each run of blanks within a line, used for alignment, to one space."""
    return _folded(text, _WIDE_BLANKS, lambda found: " ")


def typography(text: str) -> NormalizedText:
    """Remove blanks at line ends, and use plain quotes, dashes and spaces and composed characters (NFC)."""
    if text.isascii():
        return line_end_blanks(text)
    return _folded(text.translate(_PAIRED), _LOOSE, _plain)


def escapes(text: str) -> NormalizedText:
    """Remove blanks before line endings, and decode backslash sequences once."""
    return _folded(text, _ESCAPED, lambda found: _ESCAPES.get(found, ""))


def _plain(found: str) -> str:
    if found[0] in " \t" and not found.strip(" \t"):
        return ""
    composed = unicodedata.normalize("NFC", found)
    return "".join(_TWINS.get(char, char) for char in composed)


def _folded(text: str, pattern: re.Pattern[str], fold: Callable[[str], str]) -> NormalizedText:
    pieces: list[str] = []
    segments: list[Segment] = []
    done = length = 0
    for found in pattern.finditer(text):
        start, end = found.span()
        plain = fold(found.group())
        pieces += (text[done:start], plain)
        length += start - done
        segments.append((length, length + len(plain), start, end))
        length += len(plain)
        done = end
    if not segments:
        return NormalizedText(text)
    return NormalizedText("".join([*pieces, text[done:]]), tuple(segments))
