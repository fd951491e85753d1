"""The answers to a question as rows: the main ones one below another, other keys in a dim row below them."""

from collections.abc import Sequence

import msgspec

from ..text import lines
from ..text.theme import Theme

SELECTED = "❯"


class Row(msgspec.Struct, frozen=True):
    """An answer as shown."""

    keys: tuple[str, ...]
    label: str
    short: str = ""
    """Replaces the label if there are few rows."""


def draw_choices(
    main: Sequence[Row], further: Sequence[Row], selected: int, theme: Theme, width: int, rows: int
) -> list[str]:
    """Return the answers within `width` columns; the main ones side by side if they would need more than `rows`
    rows. `selected` is an index into `main`, then `further`; -1 for none."""
    more = _side_by_side(further, selected - len(main), theme, width)
    if len(main) + len(more) <= rows:
        return [*(_own_row(row, at == selected, theme, width) for at, row in enumerate(main)), *more]
    short = [msgspec.structs.replace(row, label=row.short or row.label) for row in main]
    return _side_by_side([*short, *further], selected, theme, width)


def _own_row(row: Row, is_selected: bool, theme: Theme, width: int) -> str:
    keys = " ".join(row.keys)
    label = lines.one_line(row.label, width - lines.cells(keys) - 4)
    if is_selected:
        return theme.paint("strong", f"{SELECTED} {keys}  {label}")
    return f"  {theme.paint('key', keys)}  {label}"


def _side_by_side(choices: Sequence[Row], selected: int, theme: Theme, width: int) -> list[str]:
    """Return choices separated by dots, in as few rows as possible."""
    rows: list[str] = []
    used = 0
    for at, choice in enumerate(choices):
        keys = " ".join(choice.keys)
        mark = f"{SELECTED} " if at == selected else ""
        label = lines.one_line(choice.label, max(4, width - lines.cells(mark + keys) - 3))
        own = lines.cells(f"{mark}{keys} {label}")
        painted = f"{theme.paint('key', keys)} {theme.paint('muted', label)}"
        if mark:
            painted = theme.paint("strong", f"{mark}{keys} {label}")
        if rows and used + 3 + own <= width:
            rows[-1] += theme.paint("muted", " · ") + painted
            used += 3 + own
        else:
            rows.append(f"  {painted}")
            used = 2 + own
    return rows
