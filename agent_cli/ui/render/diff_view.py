"""Unified diffs as rows of the screen: line numbers, signs, colours, and the changed words of a line.

Every line of a file is printed, in order; long lines wrap after their gutter. The gutter contains the line number
(in the old file for `-`, in the new one for all others) and the sign, so that code can be copied without it. The
headers of a diff become the file's name if there are several files, and `⋮` between hunks. The costly parts, word
diffs and code colours, are bounded: huge diffs are drawn as whole lines.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import msgspec

from ..text import lines, word_diff
from ..text.theme import Piece, Role, Theme

if TYPE_CHECKING:
    from ..markdown.highlight import CodeLines

Kind = Literal["head", "hunk", "context", "removed", "added", "note", "other"]

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_BOTH_NAMES = re.compile(r'("?)a/(.*)\1 \1b/\2\1$')
_HEADS = ("--- ", "+++ ", "diff --git ", "index ", "similarity ", "rename from ", "rename to ")
_KINDS: dict[str, Kind] = {"-": "removed", "+": "added", " ": "context", "": "context", "@": "hunk", "\\": "note"}
_LOOKS: dict[Kind, tuple[Role, ...]] = {
    "head": ("strong",), "hunk": ("muted",), "removed": ("removed",), "added": ("added",),
}  # fmt: skip
_WORDS: dict[Kind, tuple[Role, ...]] = {"removed": ("removed_words",), "added": ("added_words",)}
_TAB = 4
_NARROWEST = 8
"""Minimum width of the code after its gutter, in columns."""
_MAX_COLOURED = 2000
"""Maximum number of rows with highlighted code."""


class Row(msgspec.Struct, frozen=True):
    """A line of a diff."""

    kind: Kind
    text: str
    """The text without its sign."""
    number: int = 0
    """Line number, from 1; 0 if it has none."""
    marks: tuple[word_diff.Span, ...] = ()
    """The changed parts of the text, if only a part of the line has changed."""
    shows_blanks: bool = False
    """True to show changed blanks as signs, because the line would look unchanged otherwise."""
    file: str = ""
    """The file that a header names."""

    @property
    def sign(self) -> str:
        """The sign before the text."""
        return {"removed": "-", "added": "+", "context": " "}.get(self.kind, "")


def is_diff(text: str) -> bool:
    """Return True if `text` is or contains a unified diff."""
    return bool(re.search(r"^(--- |\+\+\+ |diff --git |@@ -)", text, re.MULTILINE))


def render_diff(text: Iterable[str], theme: Theme, width: int = 0, *, is_named: bool = False) -> list[str]:
    """Return the rendered lines of a diff that is already safe to print; with `width`, wrapped to this many
    columns. The name of a single file is shown above it only if `is_named`: elsewhere the call names it."""
    rows = list(_marked(_without_headers([*_read(text)], is_named)))
    digits = len(str(max((row.number for row in rows), default=0) or ""))
    colours = _Colours(theme, rows)
    return [line for row in rows for line in _draw(row, digits, theme, width, colours)]


def _without_headers(rows: list[Row], is_named: bool) -> Iterator[Row]:
    """Replace the headers of each file with one row, whose text may be empty."""
    groups = _grouped(rows)
    files = [_file([row.text for row in group]) if is_head else ("", "") for is_head, group in groups]
    is_named = is_named or len({name for name, _ in files if name}) > 1
    shown = ""
    for (is_head, group), (name, fact) in zip(groups, files, strict=True):
        if is_head:
            title = name if is_named and name != shown else ""
            shown = name
            yield Row("head", " ".join(filter(None, (title, fact))), file=name)
            continue
        for at, row in enumerate(group):
            if row.kind != "hunk":
                yield row
            elif at:
                yield Row("hunk", f"⋮ {row.text.split('@@', 2)[-1].strip()}".rstrip())


def _grouped(rows: Iterable[Row]) -> list[tuple[bool, list[Row]]]:
    """Group the rows into runs of headers and runs of other rows. Each file's headers are a separate run, because
    an empty file has no lines that end them."""
    groups: list[tuple[bool, list[Row]]] = []
    for row in rows:
        is_head = row.kind == "head"
        begins = not groups or groups[-1][0] != is_head
        if begins or (is_head and any(_head(row.text) == _head(head.text) for head in groups[-1][1])):
            groups.append((is_head, []))
        groups[-1][1].append(row)
    return groups


def _file(heads: list[str]) -> tuple[str, str]:
    """Return the name of the file that these headers name, and a note about it such as `(new file)`."""
    found = {_head(head): head.removeprefix(_head(head)).partition("\t")[0] for head in heads}
    is_renamed = "rename to " in found
    old = found.get("--- ", f"a/{found['rename from ']}" if is_renamed else "")
    new = found.get("+++ ", f"b/{found['rename to ']}" if is_renamed else "")
    if not new:
        both = found.get("diff --git ", "")
        named = _BOTH_NAMES.match(both)
        return (f"{named[1]}{named[2]}{named[1]}" if named else both), ""
    before, after = _bare(old, "a/"), _bare(new, "b/")
    if "/dev/null" in (old, new):
        return (after, "(new file)") if old == "/dev/null" else (before, "(deleted)")
    return (after, "") if before == after else (after, f"(was {before})")


def _head(row: str) -> str:
    """Return what a header begins with."""
    return next(filter(row.startswith, _HEADS), "")


def _bare(name: str, side: str) -> str:
    """Return a name without its side, `a/` or `b/`. Git quotes a name with control characters."""
    return f'"{name[3:]}' if name.startswith(f'"{side}') else name.removeprefix(side)


def _read(text: Iterable[str]) -> Iterator[Row]:
    """Parse the lines into rows. Only the counts of a hunk's header distinguish a removed `-- x` from the name of
    a file."""
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
    """Parse a line outside of any hunk."""
    if line.startswith(_HEADS):
        return Row("head", line)
    kind = _KINDS.get(line[:1], "other")
    if kind in ("removed", "added"):
        return Row(kind, line[1:])
    return Row("other", line)


def _marked(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows, with the changed words marked in matching removed and added lines."""
    budget = word_diff.WorkLimit()
    block: list[Row] = []
    for row in rows:
        begins_block = row.kind == "removed" and any(each.kind == "added" for each in block[-2:])
        if begins_block or row.kind not in ("removed", "added", "note"):
            yield from _compared(block, budget)
            block = []
        if row.kind in ("removed", "added", "note"):
            block.append(row)
        else:
            yield row
    yield from _compared(block, budget)


def _compared(block: list[Row], budget: word_diff.WorkLimit) -> list[Row]:
    """Return a run of removed and then added lines, with changed words marked."""
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
    """Return the visible form of a line, for comparison."""
    return re.sub(r"\s", " ", text.expandtabs(_TAB)).rstrip()


class _Colours:
    """Code colours in a diff, line by line, with a highlighter state for each side."""

    def __init__(self, theme: Theme, rows: list[Row]) -> None:
        self._theme = theme
        self._is_wanted = theme.colour and len(rows) <= _MAX_COLOURED
        self._sides: tuple[CodeLines, CodeLines] | None = None

    def begin(self, file: str) -> None:
        """Start another file."""
        from ..markdown.highlight import CodeLines, language_of

        name = language_of(file) if self._is_wanted else ""
        self._sides = (CodeLines(name), CodeLines(name)) if name else None

    def of(self, row: Row) -> list[Piece]:
        """Return the pieces of a line's text; must be called for each line in order."""
        if self._sides is None or row.kind not in ("context", "removed", "added"):
            return [((), row.text)]
        old, new = self._sides
        found: list[Piece] = [((), row.text)]
        if row.kind != "added":
            found = old.pieces(row.text)
        if row.kind != "removed":
            found = new.pieces(row.text)
        return found if row.kind == "context" or self._theme.is_rich else [((), row.text)]


def _draw(row: Row, digits: int, theme: Theme, width: int, colours: _Colours) -> Iterator[str]:
    """Yield a line in as many rows as it needs; continuation rows have an empty gutter."""
    look = _LOOKS.get(row.kind, ())
    if row.kind == "head":
        colours.begin(row.file)
        if not row.text:
            return
    if row.kind in ("head", "hunk", "other"):
        indent = " " * (digits + 1) if row.kind == "hunk" else ""
        gutter: list[Piece] = [((), indent)]
        pieces: list[Piece] = [(look, row.text.expandtabs(_TAB))]
    else:
        number = str(row.number) if row.number else ""
        signed: Piece = (look, row.sign)
        gutter = [(("muted",), f"{number:>{digits}} "), signed] if digits else [signed]
        pieces = [*_pieces(row, look, colours.of(row))]
    used = sum(len(text) for _, text in gutter)
    first, *rest = _wrapped(pieces, width - used) if width else [pieces]
    yield theme.painted([*gutter, *first])
    for part in rest:
        yield theme.painted([((), " " * used), *part])


def _wrapped(pieces: Iterable[Piece], width: int) -> list[list[Piece]]:
    """Wrap the pieces into rows of at most `width` columns, broken anywhere: code is not reflowed."""
    width = max(_NARROWEST, width)
    rows: list[list[Piece]] = [[]]
    left = width
    for look, text in pieces:
        while lines.cells(text) > left:
            at = lines.fit(text, left)
            if not at and left == width:
                at = 1  # a character wider than the row
            rows[-1].append((look, text[:at]))
            rows.append([])
            text, left = text[at:], width
        rows[-1].append((look, text))
        left -= lines.cells(text)
    return rows


def _pieces(row: Row, look: tuple[Role, ...], code: list[Piece]) -> Iterator[Piece]:
    """Yield the text as pieces: changed words are highlighted, and blanks are visible if nothing else has
    changed."""
    end = len(row.text.rstrip()) if row.kind == "added" else len(row.text)
    marked = _WORDS.get(row.kind, ())
    column = at = 0
    for roles, text in code:
        cuts = sorted({at, at + len(text), *(cut for span in row.marks for cut in span), end})
        for start, stop in pairwise(cut for cut in cuts if at <= cut <= at + len(text)):
            is_marked = any(a <= start and stop <= b for a, b in row.marks)
            is_over = start >= end
            shown = _spaced(row.text[start:stop], column, is_over or (is_marked and row.shows_blanks))
            column += lines.cells(shown)
            yield ("muted",) if is_over else marked if is_marked else (*look, *roles), shown
        at += len(text)


def _spaced(text: str, column: int, seen: bool) -> str:
    """Expand the tabs of `text`; with `seen`, show blanks as signs."""
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
