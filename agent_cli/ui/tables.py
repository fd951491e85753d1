"""Markdown tables in the width there is: as they are, with their cells broken, or one row below the other.

No cell loses a sign. There are no frames, so that a column can be copied; a line stands below the header and,
where cells have several rows, between the rows of the table.
"""

from collections.abc import Sequence

from . import lines
from .inline import filled, words
from .theme import Piece, Theme

_GAP = 2
_NARROWEST = 8
"""Columns of the screen that a column of the table needs at least, if it is not narrower by itself."""
_SHORT = 12
"""A column up to this wide stays as it is where the others have words to break."""

Cell = list[Piece]


def table(rows: Sequence[Sequence[Cell]], aligned: Sequence[str], theme: Theme, width: int) -> list[str]:
    """A table; its first row is the header, `aligned` says `left`, `right` or `center` for each column."""
    columns = [[row[at] for row in rows] for at in range(len(aligned))]
    natural = [max([1, *map(_cells, column)]) for column in columns]
    least = [max([1, *(_cells(word) for cell in column for _, word in words(cell))]) for column in columns]
    widths = _widths(natural, least, width - _GAP * (len(columns) - 1))
    if not widths:
        return _records(rows, theme, width)
    cut = [[filled(cell, own, fold=True) for cell, own in zip(row, widths, strict=True)] for row in rows]
    has_tall = any(len(cell) > 1 for row in cut[1:] for cell in row)
    rule = theme.paint("muted", "─" * (sum(widths) + _GAP * (len(widths) - 1)))
    out: list[str] = []
    for number, row in enumerate(cut):
        if number == 1 or (number and has_tall):
            out.append(rule)
        for at in range(max(len(cell) for cell in row)):
            parts = [cell[at] if at < len(cell) else [] for cell in row]
            out.append(_line(parts, widths, aligned, theme))
    return out if len(cut) > 1 else [*out, rule]


def _cells(cell: Cell) -> int:
    return sum(lines.cells(text) for _, text in cell)


def _widths(natural: list[int], least: list[int], room: int) -> list[int]:
    """How wide each column becomes: as it is, else so that words stay whole and the table low, else by breaking
    words of the widest columns. Empty where even that is too little."""
    if sum(natural) <= room:
        return natural
    if sum(least) > room:
        return _shared(least, room)
    widths = list(least)
    for at, own in enumerate(natural):
        if own <= _SHORT and own - least[at] <= room - sum(widths):
            widths[at] = own
    for _ in range(room - sum(widths)):
        widths[max(range(len(widths)), key=lambda at: natural[at] / widths[at])] += 1
    return widths


def _shared(wanted: list[int], room: int) -> list[int]:
    """Narrow columns stay as they are, the others share what is left."""
    widths, wide = list(wanted), list(range(len(wanted)))
    while small := [at for at in wide if widths[at] * len(wide) <= room]:
        wide = [at for at in wide if at not in small]
        room -= sum(widths[at] for at in small)
    share, more = divmod(max(0, room), len(wide))
    if share < _NARROWEST:
        return []
    for number, at in enumerate(wide):
        widths[at] = share + (number < more)
    return widths


def _line(parts: Sequence[list[Piece]], widths: Sequence[int], aligned: Sequence[str], theme: Theme) -> str:
    out: list[Piece] = []
    blanks = 0
    for part, own, side in zip(parts, widths, aligned, strict=True):
        spare = max(0, own - _cells(part))
        before = {"right": spare, "center": spare // 2}.get(side, 0)
        out += [((), " " * (blanks + before)), *part] if part else []
        blanks = (spare - before if part else blanks + own) + _GAP
    return theme.painted(out)


def _records(rows: Sequence[Sequence[Cell]], theme: Theme, width: int) -> list[str]:
    """Each row as lines of a name and a value."""
    header, *body = rows
    out: list[str] = []
    for row in body or [[Cell() for _ in header]]:
        out += [""] if out else []
        for name, value in zip(header, row, strict=True):
            first, *rest = filled([*name, ((), ": " * bool(name)), *value], width - 2, fold=True)
            out += [theme.painted(first), *("  " + theme.painted(part) for part in rest)]
    return out
