"""Unified diffs as rows of the screen: line numbers, signs, colours, and the words that a changed line changes.

Every line that comes in goes out, in its order; nothing is left out or joined. The gutter holds the line's number
in the file that has it (the old one for `-`, the new one for all others) and the sign, so that code can be copied
from behind it. What is expensive, the words, is bounded: long lines and huge diffs are drawn as whole lines.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from ..text import lines, word_diff
from ..text.theme import Piece, Role, Theme

Kind = Literal["head", "hunk", "context", "removed", "added", "note", "other"]

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_HEADS = ("--- ", "+++ ", "diff --git ", "index ")
_KINDS: dict[str, Kind] = {"-": "removed", "+": "added", " ": "context", "": "context", "@": "hunk", "\\": "note"}
_LOOKS: dict[Kind, tuple[Role, ...]] = {
    "head": ("strong",), "hunk": ("hunk",), "removed": ("removed",), "added": ("added",),
}  # fmt: skip
_WORDS: dict[Kind, tuple[Role, ...]] = {"removed": ("removed_words",), "added": ("added_words",)}
_TAB = 4


class Row(msgspec.Struct, frozen=True):
    """One line of a diff."""

    kind: Kind
    text: str
    """Without its sign where it has one."""
    number: int = 0
    """Its line's number, from 1; 0 where it has none."""
    marks: tuple[word_diff.Span, ...] = ()
    """What of the text is changed, where only a part of the line is."""
    shows_blanks: bool = False
    """Whether blanks that are changed have signs, since the line would look as it did before."""

    @property
    def sign(self) -> str:
        """What stands before the text."""
        return {"removed": "-", "added": "+", "context": " "}.get(self.kind, "")


def is_diff(text: str) -> bool:
    """Return whether `text` is, or holds, a unified diff."""
    return bool(re.search(r"^(--- |\+\+\+ |diff --git |@@ -)", text, re.MULTILINE))


def render_diff(text: Iterable[str], theme: Theme, width: int = 0) -> list[str]:
    """Return the lines of a diff, safe already, as they are shown; with `width`, cut to so many columns."""
    rows = list(_marked(_read(text)))
    digits = len(str(max((row.number for row in rows), default=0) or ""))
    return [_draw(row, digits, theme, width) for row in rows]


def _read(text: Iterable[str]) -> Iterator[Row]:
    """Yield what each line is. Only the counts of a hunk's header tell a removed `-- x` from the name of a
    file."""
    old = new = old_left = new_left = 0
    for line in text:
        kind = _KINDS.get(line[:1], "other")
        in_old, in_new = kind in ("removed", "context"), kind in ("added", "context")
        if header := _HUNK.match(line):
            old, new = int(header[1]), int(header[3])
            old_left, new_left = (int(header[at]) if header[at] else 1 for at in (2, 4))
            yield Row("hunk", line)
        elif kind == "note":
            yield Row("note", line)
        elif (in_old or in_new) and old_left >= in_old and new_left >= in_new:
            yield Row(kind, line[1:], old if kind == "removed" else new)
            old, new, old_left, new_left = old + in_old, new + in_new, old_left - in_old, new_left - in_new
        else:
            old_left = new_left = 0
            yield _outside(line)


def _outside(line: str) -> Row:
    """Return a line that no hunk's header announces."""
    if line.startswith(_HEADS):
        return Row("head", line)
    kind = _KINDS.get(line[:1], "other")
    if kind in ("removed", "added"):
        return Row(kind, line[1:])
    return Row("hunk" if kind == "hunk" else "other", line)


def _marked(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows, with marks where lines that were removed and added belong together."""
    budget = word_diff.WorkLimit()
    block: list[Row] = []
    for row in rows:
        if row.kind not in ("removed", "added", "note") or (row.kind == "removed" and _has_added(block)):
            yield from _compared(block, budget)
            block = []
        if row.kind in ("removed", "added", "note"):
            block.append(row)
        else:
            yield row
    yield from _compared(block, budget)


def _has_added(block: list[Row]) -> bool:
    return bool(block) and any(row.kind == "added" for row in block[-2:])


def _compared(block: list[Row], budget: word_diff.WorkLimit) -> list[Row]:
    """One run of removed and then added lines, with marks."""
    removed = [at for at, row in enumerate(block) if row.kind == "removed"]
    added = [at for at, row in enumerate(block) if row.kind == "added"]
    before, after = ([block[at].text for at in side] for side in (removed, added))
    if before and before == after:
        has_note = any(row.kind == "note" for row in block)
        return block if has_note else [*block, Row("note", "\\ Only the line ends differ")]
    out = list(block)
    for one, other, left, right in word_diff.changes(before, after, budget):
        alike = _seen(before[one]) == _seen(after[other])
        for at, marks in ((removed[one], left), (added[other], right)):
            out[at] = msgspec.structs.replace(block[at], marks=marks, shows_blanks=alike)
    return out


def _seen(text: str) -> str:
    """Return what of a line can be told from another by looking at it."""
    return re.sub(r"\s", " ", text.expandtabs(_TAB)).rstrip()


def _draw(row: Row, digits: int, theme: Theme, width: int) -> str:
    look = _LOOKS.get(row.kind, ())
    if row.kind in ("head", "hunk", "other"):
        pieces: list[Piece] = [(look, row.text.expandtabs(_TAB))]
    else:
        number = str(row.number) if row.number else ""
        gutter: list[Piece] = [(("muted",), f"{number:>{digits}} ")] if digits else []
        pieces = [*gutter, (look, row.sign), *_pieces(row, look)]
    return theme.painted(_cut(pieces, width) if width else pieces)


def _pieces(row: Row, look: tuple[Role, ...]) -> Iterator[Piece]:
    """Yield the text by colours: what changed stands out, and blanks are seen where they are all that changed."""
    column = done = 0
    end = len(row.text.rstrip()) if row.kind == "added" else len(row.text)
    for start, stop in (*((min(a, end), min(b, end)) for a, b in row.marks), (end, end)):
        for marked, part in ((False, row.text[done:start]), (True, row.text[start:stop])):
            shown = _spaced(part, column, marked and row.shows_blanks)
            column += lines.cells(shown)
            yield _WORDS.get(row.kind, ()) if marked else look, shown
        done = stop
    yield ("muted",), _spaced(row.text[end:], column, True)


def _spaced(text: str, column: int, seen: bool) -> str:
    """`text` with its tabs expanded and, where blanks are to be `seen`, with signs for them."""
    if "\t" not in text and not seen:
        return text
    out: list[str] = []
    for part in re.split(r"(\s)", text):
        if part == "\t":
            gap = _TAB - column % _TAB
            part = "→".ljust(gap) if seen else " " * gap
        elif seen and part.isspace():
            part = "·" if part == " " else "␣"
        out.append(part)
        column += lines.cells(part)
    return "".join(out)


def _cut(pieces: list[Piece], width: int) -> Iterator[Piece]:
    """Yield the pieces in `width` columns, ending in `…` where they are cut."""
    if sum(lines.cells(text) for _, text in pieces) <= width:
        yield from pieces
        return
    left = width - 1
    for look, text in pieces:
        yield look, text[: lines.fit(text, left)]
        left -= lines.cells(text)
        if left < 0:
            break
    yield (), "…"
