"""Markdown tables in the width there is: as they are, with their cells broken, or one row below the other.

No cell loses a sign. There are no frames, so that a column can be copied; a line stands below the header and,
where cells have several rows, a blank one between the rows of the table. How wide each
column becomes is decided so that words stay whole as long as there is room.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from ..text import lines
from ..text.styled_text import PLAIN, Run, StyledText, look, row, wrap_text
from ..text.theme import Theme

_GAP = 2
_NARROWEST = 8
"""Columns of the screen that a column of the table needs at least, if it is not narrower by itself."""
_SHORT = 12
"""A column up to this wide stays as it is where the others have words to break."""


def table(rows: Sequence[Sequence[StyledText]], aligned: Sequence[str], theme: Theme, width: int) -> list[str]:
    """Return a table; its first row is the header, `aligned` says `left`, `right` or `center` for each column."""
    columns = [[row[at] for row in rows] for at in range(len(aligned))]
    natural = [max([1, *(lines.cells(cell.plain) for cell in column)]) for column in columns]
    least = [max([1, *(_longest(cell.plain) for cell in column)]) for column in columns]
    widths = _widths(natural, least, width - _GAP * (len(columns) - 1))
    if not widths:
        return _records(rows, theme, width)
    header, *body = [
        [wrap_text(cell, own, fold=True) for cell, own in zip(row, widths, strict=True)] for row in rows
    ]
    rule = "─" * (sum(widths) + _GAP * (len(widths) - 1))
    apart = [""] if any(len(cell) > 1 for cells in body for cell in cells) else []
    out: list[str] = []
    for cells in body:
        out += [*(apart if out else []), *map(row, _set(cells, widths, aligned, theme))]
    height = max(map(len, header))
    header = [[*[StyledText()] * (height - len(cell)), *cell] for cell in header]
    out = out if body else [rule]
    return [*map(row, _set(header, widths, aligned, theme)), theme.paint("muted", rule), *out]


def _set(
    cells: list[list[StyledText]], widths: list[int], aligned: Sequence[str], theme: Theme
) -> Iterator[StyledText]:
    """Yield the lines of a row of the table."""
    gap = ((" " * (_GAP - 1), PLAIN), (" ", look(theme, "muted")))
    for parts in zip_longest(*cells, fillvalue=StyledText()):
        runs: list[Run] = []
        for part, width, side in zip(parts, widths, aligned, strict=True):
            room = max(0, width - lines.cells(part.plain))
            left = room if side == "right" else room // 2 if side == "center" else 0
            runs += [*(gap if runs else ()), (" " * left, PLAIN), *part.runs, (" " * (room - left), PLAIN)]
        yield StyledText(runs)


def _longest(cell: str) -> int:
    """Columns of the longest word."""
    return max((lines.cells(part) for word in cell.split() for part in lines.atoms(word)), default=1)


def _widths(natural: list[int], least: list[int], room: int) -> list[int]:
    """Return how wide each column becomes: as it is, else so that words stay whole and the table low, else by
    breaking words of the widest columns. Empty where even that is too little."""
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


def _records(rows: Sequence[Sequence[StyledText]], theme: Theme, width: int) -> list[str]:
    """Return each row as lines of a name and a value."""
    header, *body = rows
    out: list[str] = []
    for cells in body or [[StyledText() for _ in header]]:
        out += [""] if out else []
        for name, value in zip(header, cells, strict=True):
            said = name + StyledText.of(": " * bool(name.plain)) + value
            first, *rest = wrap_text(said, width - 2, fold=True)
            out += [row(first), *("  " + row(part) for part in rest)]
    return out
