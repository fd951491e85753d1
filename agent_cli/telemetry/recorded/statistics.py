"""Sum the figures of many sessions, and group them by model, project, tool, day or session."""

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from agent_cli.protocol.records import Header
from agent_cli.protocol.usage import Totals
from agent_cli.session.timing import SHARES
from agent_cli.store.catalog import SessionInfo, Sessions
from agent_cli.store.session_file import Loaded, StoreError, read_session

from ..conventions import plain
from ..open_spans import added
from .figures import (
    FIGURES,
    SLOT_S,
    Durations,
    ModelFigures,
    SessionFigures,
    ToolFigures,
    add_agent,
    figures_of,
)
from .spans import agent_files, plausible

Grouping = Literal["model", "project", "tool", "day", "session"]
_decoder = msgspec.msgpack.Decoder(SessionFigures)


class Row(msgspec.Struct):
    """The sums of a group: a model, a project, a tool, a day, a session, or everything."""

    key: str
    """Key of the group: a model's name, a folder, a tool's name, a day as `2026-11-23`, or a session's id."""
    title: str = ""
    """Display name, if it differs from the key."""
    sessions: int = 0
    turns: int = 0
    """Number of user prompts."""
    totals: Totals = Totals()
    model_s: float = 0.0
    """Total seconds of all model calls, including those of sub-agents."""
    model_failed: int = 0
    first_token: Durations = msgspec.field(default_factory=Durations)
    tools: dict[str, ToolFigures] = {}
    shares: dict[str, float] = {}
    """Seconds of the turns by `session/timing.py: Share`."""

    @property
    def wall_s(self) -> float:
        """Total duration of all turns, in seconds."""
        return sum(self.shares.values())

    @property
    def calls(self) -> ToolFigures:
        """The sum over all tools."""
        whole = ToolFigures()
        for each in self.tools.values():
            add_tool(whole, each)
        return whole


class Statistics(msgspec.Struct):
    """All sessions of a period."""

    total: Row
    rows: dict[Grouping, list[Row]] = {}
    """In display order: days by date, tools by time, others by cost and tokens."""
    damaged: int = 0
    """Number of sessions with unreadable lines; their other lines count."""
    unreadable: int = 0
    """Number of unreadable files named like sessions; they are not counted elsewhere."""
    first: float = 0.0
    """Beginning of the first slot, in seconds since the epoch; 0 if nothing was found."""
    last: float = 0.0


def statistics(sessions: Sessions, groupings: Sequence[Grouping], since: float | None = None) -> Statistics:
    """Return the sums over all saved sessions since a time (seconds since the epoch, rounded down to a quarter of
    an hour).

    Raises:
        StoreError: the folder of the sessions cannot be read.
    """
    found = Statistics(Row("total"), unreadable=len(sessions.unreadable()))
    groups: dict[Grouping, dict[str, Row]] = {by: {} for by in groupings}
    first = 0 if since is None else int(since // SLOT_S)
    for info, value in sessions.derived(f"figures {FIGURES}", _made, since, _is_current):
        if not value:
            found.unreadable += 1
            continue
        figures = _decoder.decode(value.partition(b"\n")[2])
        before = found.total.totals.requests, found.total.calls.calls, found.total.turns, found.total.wall_s
        _add(figures, first, "total", lambda slot, name: found.total)
        if before == (found.total.totals.requests, found.total.calls.calls, found.total.turns, found.total.wall_s):
            continue
        for by, rows in groups.items():
            _add_to_groups(figures, first, by, info, rows)
        _bounds(found, figures, first)
        found.total.sessions += 1
        found.damaged += bool(figures.damaged)
    found.rows = {by: sorted(rows.values(), key=_order(by)) for by, rows in groups.items()}
    return found


def _made(path: Path) -> bytes:
    """Return the figures of a session file and of its sub-agents' files, preceded by a line with the stamp of the
    latter; empty if it cannot be read."""
    stamp = _stamp(path)  # first: later additions are read again next time
    try:
        loaded = read_session(path)
    except (StoreError, OSError):
        return b""
    records, left_out = plausible(loaded.records)
    figures = figures_of(records, _damaged(loaded) + left_out)
    for file in agent_files(path):
        try:
            agent = read_session(file)
        except (StoreError, OSError):
            figures.damaged += 1
            continue
        records, left_out = plausible(agent.records)
        figures.damaged += _damaged(agent) + left_out
        header = records[0]
        add_agent(figures, plain(header.agent_type) if isinstance(header, Header) else "", records)
    return stamp + b"\n" + msgspec.msgpack.encode(figures)


def _damaged(loaded: Loaded) -> int:
    return len(loaded.damage) + loaded.torn + bool(loaded.recovered)


def _is_current(path: Path, value: bytes) -> bool:
    """Return True if the files of sub-agents are unchanged; that of the session itself is."""
    return not value or value.partition(b"\n")[0] == _stamp(path)


def _stamp(path: Path) -> bytes:
    """Return a stamp that changes whenever a file of a sub-agent does; empty if there is none."""
    count = size = latest = 0
    for file in agent_files(path):
        with contextlib.suppress(OSError):
            stat = file.stat()
            count, size, latest = count + 1, size + stat.st_size, max(latest, stat.st_mtime_ns)
    return b"%d %d %d" % (count, size, latest) if count else b""


def add_tool(whole: ToolFigures, part: ToolFigures) -> None:
    """Add the figures of a tool to others."""
    whole.calls += part.calls
    whole.agents = {key: whole.agents.get(key, 0) + part.agents.get(key, 0) for key in whole.agents | part.agents}
    whole.failed += part.failed
    whole.denied += part.denied
    whole.total_s += part.total_s
    whole.waited_s += part.waited_s
    whole.durations.merge(part.durations)


def _add_to_groups(
    figures: SessionFigures, first: int, by: Grouping, info: SessionInfo, rows: dict[str, Row]
) -> None:
    """Add a session to its groups."""
    seen: set[str] = set()

    def group(slot: int, name: str) -> Row:
        key = name
        if by == "day":
            key = time.strftime("%Y-%m-%d", time.localtime(slot * SLOT_S))
        elif by in ("project", "session"):
            key = info.cwd if by == "project" else info.id
        row = rows.setdefault(key, Row(key, info.title if by == "session" else ""))
        row.sessions += key not in seen
        seen.add(key)
        return row

    _add(figures, first, by, group)


def _add(
    figures: SessionFigures, first: int, by: Grouping | Literal["total"], row_of: Callable[[int, str], Row]
) -> None:
    """Add the slots from `first` on to their rows. Grouped by model there are no turns and tools, grouped by tool
    no models: no record tells which of several they belong to."""
    for slot, models in figures.models.items():
        for model, part in models.items() if slot >= first and by != "tool" else ():
            _add_model(row_of(slot, model), part)
    for slot, tools in figures.tools.items():
        for tool, figure in tools.items() if slot >= first and by != "model" else ():
            add_tool(row_of(slot, tool).tools.setdefault(tool, ToolFigures()), figure)
    for slot, turn in figures.turns.items():
        if slot >= first and by not in ("model", "tool"):
            _add_turn(row_of(slot, ""), turn.turns, turn.shares)


def _add_model(row: Row, part: ModelFigures) -> None:
    row.totals = added(row.totals, part.totals)
    row.model_s += part.duration_s
    row.model_failed += part.failed
    row.first_token.merge(part.first_token)


def _add_turn(row: Row, turns: int, shares: dict[str, float]) -> None:
    row.turns += turns
    for name in SHARES:
        row.shares[name] = row.shares.get(name, 0.0) + shares.get(name, 0.0)


def _bounds(found: Statistics, figures: SessionFigures, first: int) -> None:
    slots = [slot for part in (figures.models, figures.tools, figures.turns) for slot in part if slot >= first]
    if slots:
        begin, end = min(slots) * float(SLOT_S), (max(slots) + 1) * float(SLOT_S)
        found.first = min(found.first or begin, begin)
        found.last = max(found.last, end)


def _order(by: Grouping) -> Callable[[Row], tuple[float, ...] | str]:
    if by == "day":
        return lambda row: row.key
    if by == "tool":
        return lambda row: (-row.calls.total_s, -row.calls.calls)
    return lambda row: (-(row.totals.cost_usd or 0.0), -row.totals.known, -row.wall_s)
