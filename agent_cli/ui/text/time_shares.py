"""Draw a breakdown of time: a bar with marked and coloured parts, and a line for each part."""

from collections.abc import Mapping

from . import lines
from .theme import Role, Theme

SHARES: tuple[tuple[str, str, str, Role], ...] = (
    ("first_token", "▒", "model, before its first token", "accent"),
    ("streaming", "█", "model, answering", "accent"),
    ("tool", "▓", "tools", "ok"),
    ("waiting", "░", "waiting for you", "warning"),
    ("retry", "×", "waiting for the provider", "error"),
    ("hook", "+", "hooks", "muted"),
    ("overhead", "·", "overhead", "muted"),
)
"""Name of a share, its mark, its label, and its colour."""
_LONGEST_BAR = 60


def render_shares(seconds: Mapping[str, float], width: int, theme: Theme, indent: str = "") -> list[str]:
    """Return a bar in at most `width` columns, and its legend below; nothing if the total is zero.

    Args:
        seconds: durations by the names in `SHARES`.
        width: width of the terminal in columns.
        theme: the colours.
        indent: prefix of each line.
    """
    parts = [part for part in SHARES if seconds.get(part[0], 0.0) > 0]
    whole = sum(seconds[share] for share, *_ in parts)
    if not whole:
        return []
    room = max(min(width - len(indent), _LONGEST_BAR), 10)
    ends, past = [0], 0.0
    for share, *_ in parts:
        past += seconds[share]
        ends.append(round(room * past / whole))
    bar = "".join(
        theme.paint(role, mark * (ends[at + 1] - ends[at])) for at, (_, mark, _, role) in enumerate(parts)
    )
    rows = [f"{indent}{bar}"]
    for share, mark, name, role in parts:
        before, after = f"{percent(seconds[share] / whole):>4}  ", f", {duration(seconds[share])}"
        name = lines.truncate(name, max(width - len(indent) - 2 - len(before) - len(after), 4))
        rows.append(f"{indent}{theme.paint(role, mark)} {before}{name}{after}")
    return rows


def duration(seconds: float) -> str:
    """Return a short duration: `40 ms`, `3.2 s`, `4 min`, `1.5 h`; a dash for zero."""
    if seconds <= 0:
        return "–"
    if seconds < 0.95:
        return f"{max(seconds * 1000, 1):.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"


def draw_bar(share: float, width: int) -> str:
    """Return a bar whose full length is `width`; at least one mark for any share above 0."""
    return "▪" * max(1, round(width * share)) if share > 0 else ""


def percent(share: float) -> str:
    """Return a share from 0 to 1 as `62%`, or `<1%`."""
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"
