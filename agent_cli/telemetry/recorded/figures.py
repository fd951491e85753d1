"""Reduce a session to figures that are small enough to be cached: tokens, money and time by the quarter of an
hour, by model and by tool. All tables of `agent stats` are sums of them. Pure."""

import math
from collections.abc import Iterable

import msgspec

from agent_cli.protocol.messages import ToolResult
from agent_cli.protocol.records import AnyRecord, ModelCalled
from agent_cli.protocol.usage import Totals
from agent_cli.session.timing import FINISHES, Stretch, Timing, by_turn, shares_of

SLOT_S = 900
"""Seconds: every zone's midnight lies between two slots."""
_RATIO = 1.05
_SHORTEST_S = 0.001
FIGURES = "2"
"""Changes whenever the figures of the same session would."""


class Durations(msgspec.Struct):
    """How long many calls took: counts by steps of 5 %, so that percentiles of sums can be had."""

    counts: dict[int, int] = {}

    def add(self, duration_s: float) -> None:
        """Count one call."""
        step = max(0, math.ceil(math.log(max(duration_s, _SHORTEST_S) / _SHORTEST_S, _RATIO)))
        self.counts[step] = self.counts.get(step, 0) + 1

    def merge(self, other: "Durations") -> None:
        """Count the calls of another."""
        for step, count in other.counts.items():
            self.counts[step] = self.counts.get(step, 0) + count

    def percentile(self, share: float) -> float:
        """Return the duration in seconds that `share` (0 to 1) of the calls did not exceed, at most 5 % too long;
        0 for no call."""
        left = math.ceil(sum(self.counts.values()) * share)
        for step in sorted(self.counts):
            left -= self.counts[step]
            if left <= 0:
                return 0.0 if not step else _SHORTEST_S * _RATIO**step
        return 0.0


class ModelFigures(msgspec.Struct):
    """Calls of one model in one slot."""

    totals: Totals = Totals()
    duration_s: float = 0.0
    """Of all calls, those of sub-agents included."""
    failed: int = 0
    first_token: Durations = msgspec.field(default_factory=Durations)


class ToolFigures(msgspec.Struct):
    """Calls of one tool in one slot, those of sub-agents included."""

    calls: int = 0
    agents: dict[str, int] = {}
    """Of these, how many were made by sub-agents, by their type."""
    failed: int = 0
    """Calls that failed or were stopped."""
    denied: int = 0
    total_s: float = 0.0
    waited_s: float = 0.0
    """For the user, beside `total_s`."""
    durations: Durations = msgspec.field(default_factory=Durations)


class TurnFigures(msgspec.Struct):
    """Turns that began in one slot."""

    turns: int = 0
    """Those with a prompt of the user."""
    shares: dict[str, float] = {}
    """Seconds by `session/timing.py: Share`."""


class SessionFigures(msgspec.Struct):
    """What `agent stats` needs of one session. Keys begin with the slot: whole quarters of an hour since the
    epoch."""

    models: dict[int, dict[str, ModelFigures]] = {}
    tools: dict[int, dict[str, ToolFigures]] = {}
    turns: dict[int, TurnFigures] = {}
    damaged: int = 0
    """Lines of the file that cannot be read."""


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
    for turn, stretches in zip(timing.turns, by_turn(timing), strict=True):
        _add_turn(figures, turn, stretches, is_prompted=turn.turn in timing.prompted)
    return figures


def add_agent(figures: SessionFigures, agent_type: str, records: Iterable[AnyRecord]) -> None:
    """Add the tools that a sub-agent used. Its model calls are booked in the session above it already, and its
    time is that of the call which waited for it."""
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
    found = figures.tools.setdefault(_slot(result.time), {}).setdefault(result.tool, ToolFigures())
    found.calls += 1
    found.denied += result.status == "denied"
    found.failed += result.status in ("failed", "cancelled", "unknown")
    found.total_s += result.duration_s
    found.waited_s += result.waited_s
    if result.status != "denied":
        found.durations.add(result.duration_s)
    return found


def _add_turn(figures: SessionFigures, turn: Stretch, stretches: list[Stretch], *, is_prompted: bool) -> None:
    found = figures.turns.setdefault(_slot(turn.start), TurnFigures())
    found.turns += is_prompted
    for share, seconds in shares_of(turn, stretches).items():
        found.shares[share] = found.shares.get(share, 0.0) + seconds
