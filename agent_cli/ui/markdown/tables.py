"""Markdown tables within the available width: unchanged, with wrapped cells, or as a list of records.

No character of a cell is dropped. There are no frames, so that a column can be copied. A line separates the
header; a blank row separates the rows of the table if cells have several lines. Column widths are chosen so that
words stay whole as long as there is room.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from ..text import lines
from ..text.styled_text import PLAIN, Run, StyledText, look, row, wrap_text
from ..text.theme import Theme

_GAP = 2
_NARROWEST = 8
"""Minimum width of a table column, unless its content is narrower."""
_SHORT = 12
"""A column up to this wide is not wrapped if other columns have words to wrap."""


def table(rows: Sequence[Sequence[StyledText]], aligned: Sequence[str], theme: Theme, width: int) -> list[str]:
    """Return a table. Its first row is the header; `aligned` is `left`, `right` or `center` for each column."""
    columns = [[row[at] for row in rows] for at in range(len(aligned))]
    natural = [max([1, *(lines.cells(cell.plain) for cell in column)]) for column in columns]
    least = [max([1, *(_longest(cell.plain) for cell in column)]) for column in columns]
    widths = _widths(natural, least, width - _GAP * (len(columns) - 1))
    if not widths:
        return _records(rows, width)
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
    """Yield the lines of a table row."""
    gap = ((" " * (_GAP - 1), PLAIN), (" ", look(theme, "muted")))
    for parts in zip_longest(*cells, fillvalue=StyledText()):
        runs: list[Run] = []
        for part, width, side in zip(parts, widths, aligned, strict=True):
            room = max(0, width - lines.cells(part.plain))
            left = room if side == "right" else room // 2 if side == "center" else 0
            runs += [*(gap if runs else ()), (" " * left, PLAIN), *part.runs, (" " * (room - left), PLAIN)]
        yield StyledText(runs)


def _longest(cell: str) -> int:
    """Return the width of the longest word in columns."""
    return max((lines.cells(part) for word in cell.split() for part in lines.atoms(word)), default=1)


def _widths(natural: list[int], least: list[int], room: int) -> list[int]:
    """Return the column widths: natural if they fit, else so that words stay whole and the table low, else with
    words of the widest columns broken. Empty if even that does not fit."""
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
    """Keep narrow columns as they are and share the remaining width among the others."""
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


def _records(rows: Sequence[Sequence[StyledText]], width: int) -> list[str]:
    """Return each row as lines of names and values."""
    header, *body = rows
    out: list[str] = []
    for cells in body or [[StyledText() for _ in header]]:
        out += [""] if out else []
        for name, value in zip(header, cells, strict=True):
            said = name + StyledText.of(": " * bool(name.plain)) + value
            first, *rest = wrap_text(said, width - 2, fold=True)
            out += [row(first), *("  " + row(part) for part in rest)]
    return out
