"""`agent stats`: break down time, tokens and cost over all saved sessions."""

import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from agent_cli.bootstrap.options import UsageError
from agent_cli.bootstrap.redactor import redactor_of
from agent_cli.protocol.sanitize import escape_json, one_line
from agent_cli.ui.text.lines import number
from agent_cli.ui.text.theme import NONE, choose

from ..sessions.output import emit, parse_moment, setup_for_sessions

if TYPE_CHECKING:
    from agent_cli.telemetry.recorded.figures import ToolFigures
    from agent_cli.telemetry.recorded.statistics import Grouping, Row, Statistics

_GROUPINGS: "dict[str, Grouping]" = {
    "model": "model", "project": "project", "tool": "tool", "day": "day", "session": "session"
}  # fmt: skip
_USUAL: "tuple[Grouping, ...]" = ("day", "model", "tool")


def stats_command(
    since: Annotated[
        str | None,
        typer.Option(metavar="MOMENT", help="Count from this moment on: 7d, 12h, today, yesterday or 2026-11-21."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(_GROUPINGS),
            help="Show one table, with all its rows.",
            autocompletion=lambda: [*_GROUPINGS],
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")] = False,
) -> int:
    """Show where tokens, money and time of all saved sessions went."""
    if by is not None and by not in _GROUPINGS:
        raise UsageError(f"--by: {by!r} is not one of {', '.join(_GROUPINGS)}")
    from agent_cli.telemetry.recorded.statistics import statistics

    from .stats_tables import Written, overview, table

    moment = parse_moment("--since", since)
    setup = setup_for_sessions()
    groupings = _USUAL if by is None else (_GROUPINGS[by],)
    found = statistics(setup.sessions, groupings, moment)
    mask = redactor_of(setup).mask
    _tell_damage(found)
    if as_json:
        given = {"since": moment, **_plain(found, _GROUPINGS[by] if by else None)}
        emit([escape_json(mask(msgspec.json.encode(given).decode()))])
        return 0
    theme = choose(setup.config.ui) if sys.stdout.isatty() else NONE
    out = Written(shutil.get_terminal_size().columns, theme, lambda text: one_line(mask(text)))
    if not found.total.sessions:
        emit(["No sessions since then." if since else "No sessions yet. Start one with `agent`."])
        return 0
    lines = overview(found, out)
    for grouping in groupings:
        lines += ["", *table(grouping, found, out, is_alone=by is not None)]
    emit(lines)
    return 0


def _tell_damage(found: "Statistics") -> None:
    """Report on standard error what could not be counted."""
    if found.unreadable:
        files, them = number(found.unreadable, "session file"), "it" if found.unreadable == 1 else "them"
        print(f"agent: {files} could not be read; the figures are without {them}", file=sys.stderr)
    if found.damaged:
        some = f"{number(found.damaged, 'session')} {'has' if found.damaged == 1 else 'have'}"
        print(f"agent: {some} damaged lines; the figures are without these lines", file=sys.stderr)


def _plain(found: "Statistics", by: "Grouping | None") -> dict[str, Any]:
    bounds = {"first": found.first or None, "last": found.last or None}
    given = {**bounds, "damaged": found.damaged, "unreadable": found.unreadable, "total": _row(found.total)}
    return given | {
        f"by_{name}": [_row(row) for row in rows] for name, rows in found.rows.items() if by in (None, name)
    }


def _row(row: "Row") -> dict[str, Any]:
    """Return a group for JSON output, in seconds, tokens and US dollars."""
    from agent_cli.session.timing import SHARES

    return {
        "name": row.key,
        "title": row.title,
        "sessions": row.sessions,
        "prompts": row.turns,
        **msgspec.to_builtins(row.totals),
        "cache_share": row.totals.cached_share,
        "failed_requests": row.model_failed,
        "model_s": round(row.model_s, 3),
        "first_token_p50_s": round(row.first_token.percentile(0.5), 3),
        "first_token_p95_s": round(row.first_token.percentile(0.95), 3),
        "wall_s": round(row.wall_s, 3),
        "time_s": {name: round(row.shares.get(name, 0.0), 3) for name in SHARES},
        "tools": {name: _tool(figures) for name, figures in sorted(row.tools.items())},
    }


def _tool(figures: "ToolFigures") -> dict[str, Any]:
    return {
        "calls": figures.calls,
        "by_agent_type": dict(sorted(figures.agents.items())),
        "failed": figures.failed,
        "denied": figures.denied,
        "total_s": round(figures.total_s, 3),
        "p95_s": round(figures.durations.percentile(0.95), 3),
        "waited_s": round(figures.waited_s, 3),
    }
