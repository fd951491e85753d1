"""Markdown tables in the width there is: as they are, with their cells broken, or one row below the other.

No cell loses a sign. There are no frames, so that a column can be copied; a line stands below the header and,
where cells have several rows, a blank one between the rows of the table. How wide each
column becomes is decided so that words stay whole as long as there is room.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.text import Text

from ..text import lines
from ..text.rich_text import row, style, wrap_text
from ..text.theme import Theme

_GAP = 2
_NARROWEST = 8
"""Columns of the screen that a column of the table needs at least, if it is not narrower by itself."""
_SHORT = 12
"""A column up to this wide stays as it is where the others have words to break."""


def table(rows: Sequence[Sequence[Text]], aligned: Sequence[str], theme: Theme, width: int) -> list[str]:
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
    muted = style(theme, "muted")
    rule = "─" * (sum(widths) + _GAP * (len(widths) - 1))
    gap = Text.assemble(" " * (_GAP - 1), (" ", muted))
    apart = [""] if any(len(cell) > 1 for cells in body for cell in cells) else []
    out: list[str] = []
    for cells in body:
        out += [*(apart if out else []), *(row(line, theme) for line in _set(cells, widths, aligned, gap))]
    height = max(map(len, header))
    header = [[*[Text()] * (height - len(cell)), *cell] for cell in header]
    out = out if body else [rule]
    head = [row(line, theme) for line in _set(header, widths, aligned, gap)]
    return [*head, row(Text.assemble((rule, muted)), theme), *out]


def _set(cells: list[list[Text]], widths: list[int], aligned: Sequence[str], gap: Text) -> Iterator[Text]:
    """Yield the lines of a row of the table."""
    for parts in zip_longest(*cells, fillvalue=Text()):
        yield gap.join(_padded(*each) for each in zip(parts, widths, aligned, strict=True))


def _padded(part: Text, width: int, side: str) -> Text:
    room = max(0, width - lines.cells(part.plain))
    left = room if side == "right" else room // 2 if side == "center" else 0
    return Text.assemble(" " * left, part, " " * (room - left))


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


def _records(rows: Sequence[Sequence[Text]], theme: Theme, width: int) -> list[str]:
    """Return each row as lines of a name and a value."""
    header, *body = rows
    out: list[str] = []
    for cells in body or [[Text() for _ in header]]:
        out += [""] if out else []
        for name, value in zip(header, cells, strict=True):
            first, *rest = wrap_text(name + Text(": " * bool(name.plain)) + value, width - 2, fold=True)
            out += [row(first, theme), *("  " + row(part, theme) for part in rest)]
    return out
