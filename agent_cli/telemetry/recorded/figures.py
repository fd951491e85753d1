"""Reduce a session to figures that are small enough to be cached: tokens, cost and time per quarter of an hour, by
model and by tool. All tables of `agent stats` are sums of them. Pure."""

import math
from collections.abc import Iterable

import msgspec

from agent_cli.protocol.messages import FINISHES, ToolResult
from agent_cli.protocol.records import AnyRecord, ModelCalled
from agent_cli.protocol.usage import Totals
from agent_cli.session.timing import Interval, Timing, by_turn, shares_of

from ..conventions import tool_name

SLOT_S = 900
"""Slot length in seconds: in every time zone midnight is a boundary of slots."""
_RATIO = 1.05
_SHORTEST_S = 0.001
FIGURES = "2"
"""Version of the figures; must change whenever the figures of the same session would."""


class Durations(msgspec.Struct):
    """Durations of many calls: a histogram in steps of 5 %, so that percentiles of sums can be computed."""

    counts: dict[int, int] = {}

    def add(self, duration_s: float) -> None:
        """Count a call."""
        step = max(0, math.ceil(math.log(max(duration_s, _SHORTEST_S) / _SHORTEST_S, _RATIO)))
        self.counts[step] = self.counts.get(step, 0) + 1

    def merge(self, other: "Durations") -> None:
        """Add the calls of another histogram."""
        for step, count in other.counts.items():
            self.counts[step] = self.counts.get(step, 0) + count

    def percentile(self, share: float) -> float:
        """Return the duration in seconds that `share` (0 to 1) of the calls did not exceed, at most 5 % too long;
        0 for no calls."""
        left = math.ceil(sum(self.counts.values()) * share)
        for step in sorted(self.counts):
            left -= self.counts[step]
            if left <= 0:
                return 0.0 if not step else _SHORTEST_S * _RATIO**step
        return 0.0


class ModelFigures(msgspec.Struct):
    """Calls of a model in a slot."""

    totals: Totals = Totals()
    duration_s: float = 0.0
    """Total of all calls, including those of sub-agents."""
    failed: int = 0
    first_token: Durations = msgspec.field(default_factory=Durations)


class ToolFigures(msgspec.Struct):
    """Calls of a tool in a slot, including those of sub-agents."""

    calls: int = 0
    agents: dict[str, int] = {}
    """Number of calls made by sub-agents, by their type."""
    failed: int = 0
    """Calls that failed or were stopped."""
    denied: int = 0
    total_s: float = 0.0
    waited_s: float = 0.0
    """Time spent waiting for the user, in addition to `total_s`."""
    durations: Durations = msgspec.field(default_factory=Durations)


class TurnFigures(msgspec.Struct):
    """Turns that began in a slot."""

    turns: int = 0
    """Number of turns with a user prompt."""
    shares: dict[str, float] = {}
    """Seconds by `session/timing.py: Share`."""


class SessionFigures(msgspec.Struct):
    """The figures of a session for `agent stats`. The keys are slots: whole quarters of an hour since the
    epoch."""

    models: dict[int, dict[str, ModelFigures]] = {}
    tools: dict[int, dict[str, ToolFigures]] = {}
    turns: dict[int, TurnFigures] = {}
    damaged: int = 0
    """Number of unreadable lines in the file."""


def figures_of(records: Iterable[AnyRecord], damaged: int = 0) -> SessionFigures:
    """Return the figures of a session's records."""
    timing = Timing()
    figures = SessionFigures(damaged=damaged)
    for record in records:
        timing.add(record)
        if isinstance(record, ModelCalled):
            _add_model(figures, record)
        elif isinstance(record, ToolResult):
            _add_tool(figures, record)
    for turn, intervals in zip(timing.turns, by_turn(timing), strict=True):
        _add_turn(figures, turn, intervals, is_prompted=turn.turn in timing.prompted)
    return figures


def add_agent(figures: SessionFigures, agent_type: str, records: Iterable[AnyRecord]) -> None:
    """Add the tool calls of a sub-agent. Its model calls are already recorded in the parent session, and its time
    is part of the call that waited for it."""
    for record in records:
        if isinstance(record, ToolResult):
            found = _add_tool(figures, record)
            found.agents[agent_type] = found.agents.get(agent_type, 0) + 1


def _slot(time: float) -> int:
    return int(time // SLOT_S)


def _add_model(figures: SessionFigures, call: ModelCalled) -> None:
    found = figures.models.setdefault(_slot(call.time), {}).setdefault(call.model, ModelFigures())
    found.totals = found.totals.plus(call.usage, call.cost_usd, call.at_most_usd)
    found.duration_s += call.duration_s
    found.failed += call.outcome not in FINISHES
    if call.first_token_s is not None:
        found.first_token.add(call.first_token_s)


def _add_tool(figures: SessionFigures, result: ToolResult) -> ToolFigures:
    found = figures.tools.setdefault(_slot(result.time), {}).setdefault(tool_name(result.tool), ToolFigures())
    found.calls += 1
    found.denied += result.status == "denied"
    found.failed += result.status in ("failed", "cancelled", "unknown")
    found.total_s += result.duration_s
    found.waited_s += result.waited_s
    if result.status != "denied":
        found.durations.add(result.duration_s)
    return found


def _add_turn(figures: SessionFigures, turn: Interval, intervals: list[Interval], *, is_prompted: bool) -> None:
    found = figures.turns.setdefault(_slot(turn.start), TurnFigures())
    found.turns += is_prompted
    for share, seconds in shares_of(turn, intervals).items():
        found.shares[share] = found.shares.get(share, 0.0) + seconds
