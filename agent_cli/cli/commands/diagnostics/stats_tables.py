"""The tables and bars of `agent stats`, fitted to the width of the terminal."""

from collections.abc import Callable, Sequence

import msgspec

from agent_cli.telemetry.recorded.statistics import Grouping, Row, Statistics
from agent_cli.ui.text import lines
from agent_cli.ui.text.theme import Theme
from agent_cli.ui.text.time_shares import draw_bar, duration, percent, render_shares

from ..sessions.output import when

_MOST_ROWS = 12
_NARROWEST_NAME = 12
_BAR = 24
_NARROWEST_BAR = 6


class Written(msgspec.Struct, frozen=True):
    """Output settings of the tables."""

    width: int
    """Width of the terminal in columns."""
    theme: Theme
    clean: Callable[[str], str]
    """Turns text from elsewhere into one safe line, with secrets masked."""


class _Column(msgspec.Struct, frozen=True):
    """A column of figures; if there is little room, the least important columns are omitted."""

    head: str
    cell: Callable[[Row], str]
    rank: int
    """Columns with a higher rank are omitted first."""


def overview(found: Statistics, out: Written) -> list[str]:
    """Return the totals over all sessions."""
    total = found.total
    calls = total.calls
    failed = f", {total.model_failed} failed" if total.model_failed else ""
    by_agents = sum(calls.agents.values())
    tools = lines.number(calls.calls, "call") + f", {by_agents} of them by sub-agents" * bool(by_agents)
    first, last = (when(moment).partition(" ")[0] for moment in (found.first, found.last - 1))
    span = first if first == last else f"{first} to {last}"
    share = total.totals.cached_share
    cached = "" if share is None else f", {_share(share)} of what was sent came from the cache"
    facts = [
        ("sessions", f"{total.sessions}, {lines.number(total.turns, 'prompt')}, {span}"),
        ("tokens", f"{lines.tokens(total.totals)}{cached}"),
        ("cost", f"{lines.money(total.totals)}, {lines.number(total.totals.requests, 'model call')}{failed}"),
        ("tools", f"{tools}, {calls.failed} failed, {calls.denied} denied"),
        ("time", f"{duration(total.wall_s)} of turns"),
    ]
    rows: list[str] = []
    for name, fact in facts:
        wrapped = lines.wrap_limited(fact, max(out.width - 12, 16), 3)
        rows += [
            f"{out.theme.paint('muted', f'{name:<10}')}  {wrapped[0]}",
            *(f"{'':12}{row}" for row in wrapped[1:]),
        ]
    return [*rows, *render_shares(total.shares, out.width, out.theme, " " * 12)]


def table(by: Grouping, found: Statistics, out: Written, *, is_alone: bool) -> list[str]:
    """Return the table of a grouping: all rows if it is shown alone, else the most important ones."""
    rows = found.rows[by]
    if not rows:
        return [out.theme.paint("muted", f"Nothing is known by {by}.")]
    shown = rows if is_alone else rows[-_MOST_ROWS:] if by == "day" else rows[:_MOST_ROWS]
    weight, unit = _weight(by, rows)
    most = max(map(weight, shown)) or 1.0
    columns = _columns(by)
    names = [
        out.clean(f"{each.key}  {each.title}" if by == "session" else each.key or "(unknown)") for each in shown
    ]
    longest = max(map(lines.cells, [*names, by]))
    cells = {column.head: [column.cell(row) for row in shown] for column in columns}
    wide = {column.head: max(map(len, [column.head, *cells[column.head]])) for column in columns}
    while len(columns) > 1 and sum(wide[each.head] + 2 for each in columns) + min(longest, 24) > out.width:
        columns = [each for each in columns if each.rank != max(other.rank for other in columns)]
    taken = sum(wide[each.head] + 2 for each in columns)
    name_width = max(min(longest, out.width - taken), min(_NARROWEST_NAME, out.width - taken), 1)
    bar = min(_BAR, out.width - taken - name_width - 2)
    head = f"{lines.pad(by, name_width)}" + "".join(f"  {each.head:>{wide[each.head]}}" for each in columns)
    if bar >= _NARROWEST_BAR:
        head += f"  by {unit}"[: bar + 2]
    written = [out.theme.paint("muted", head)]
    for at, row in enumerate(shown):
        line = lines.pad(_shortened(names[at], name_width, at_end=by != "project"), name_width)
        line += "".join(f"  {cells[each.head][at]:>{wide[each.head]}}" for each in columns)
        if bar >= _NARROWEST_BAR:
            line += f"  {out.theme.paint('accent', draw_bar(weight(row) / most, bar))}"
        written.append(line.rstrip())
    if len(shown) < len(rows):
        written.append(out.theme.paint("muted", f"{len(rows) - len(shown)} more; --by {by} shows all."))
    return written


def _columns(by: Grouping) -> list[_Column]:
    if by == "tool":
        return [
            _Column("calls", lambda row: str(row.calls.calls), 0),
            _Column("agents", lambda row: _count(sum(row.calls.agents.values())), 6),
            _Column("failed", lambda row: _count(row.calls.failed), 2),
            _Column("denied", lambda row: _count(row.calls.denied), 4),
            _Column("time", lambda row: duration(row.calls.total_s), 1),
            _Column("p95", lambda row: duration(row.calls.durations.percentile(0.95)), 3),
            _Column("for you", lambda row: duration(row.calls.waited_s), 5),
        ]
    money = _Column("cost", lambda row: lines.money(row.totals), 0)
    tokens = _Column("tokens", lambda row: lines.count(row.totals.known), 1)
    cached = _Column("cached", lambda row: _share(row.totals.cached_share), 3)
    if by == "model":
        return [
            _Column("calls", lambda row: str(row.totals.requests), 2),
            _Column("failed", lambda row: _count(row.model_failed), 6),
            tokens,
            cached,
            _Column("time", lambda row: duration(row.model_s), 4),
            _Column("first", lambda row: duration(row.first_token.percentile(0.5)), 5),
            money,
        ]
    sessions = [_Column("sessions", lambda row: str(row.sessions), 6)] if by != "session" else []
    return [
        *sessions,
        _Column("prompts", lambda row: str(row.turns), 5),
        tokens,
        cached,
        _Column("time", lambda row: duration(row.wall_s), 2),
        money,
    ]


def _weight(by: Grouping, rows: Sequence[Row]) -> tuple[Callable[[Row], float], str]:
    """Return the measure of the bars: cost if all of it is known, else tokens; for tools their time."""
    if by == "tool":
        return (lambda row: row.calls.total_s), "time"
    if any(row.totals.cost_usd for row in rows) and not any(row.totals.unpriced for row in rows):
        return (lambda row: row.totals.cost_usd or 0.0), "cost"
    return (lambda row: float(row.totals.known)), "tokens"


def _share(share: float | None) -> str:
    return "–" if share is None else percent(share)


def _count(count: int) -> str:
    return str(count) if count else "–"


def _shortened(text: str, width: int, *, at_end: bool) -> str:
    """Return a text shortened to `width` columns; of a path the end is kept."""
    if lines.cells(text) <= width or at_end:
        return lines.truncate(text, width)
    return "…" + text[-(width - 1) :] if text.isascii() else lines.truncate(text, width)
