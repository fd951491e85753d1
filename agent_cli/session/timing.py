"""Timing of a session, computed from its records: intervals by activity, and how each turn's time divides among
them. Pure.

A record carries the time when it was written. For a model call, a tool run and a hook that is the end, and the
duration is recorded too. Tools that ran in parallel are recorded together when the last has ended, so they are
given a common start. Unaccounted time is `overhead`: the program's own work, and in sessions of earlier versions
also waiting for approvals.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import msgspec

from agent_cli.protocol.messages import FINISHES, AssistantMessage, ToolResult, UserMessage
from agent_cli.protocol.records import (
    AnyRecord,
    CallStarted,
    CompactionSaved,
    HookCompleted,
    ModelCalled,
    RequestSent,
    Shortened,
    TurnEnded,
)

IntervalKind = Literal["turn", "model", "tool", "waiting", "retry", "compaction", "hook"]
"""`waiting`: for the user, for one call. `retry`: the pause after a failed attempt. `compaction`: the moment when
the context was reduced."""

Share = Literal["first_token", "streaming", "tool", "waiting", "retry", "hook", "overhead"]
"""Category of a moment in a turn. `first_token`: a model was called and had not begun to answer. `streaming`: it
was answering. `waiting`: for the user. `retry`: pauses before further attempts. `overhead`: the rest, spent in
this program."""
SHARES: tuple[Share, ...] = get_args(Share)

_FIRST: tuple[Share, ...] = ("streaming", "first_token", "waiting", "tool", "hook", "retry")
"""Precedence of categories that overlap."""
_SHORTEST_PAUSE_S = 0.001
_ASKS = frozenset({"ask_user"})


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """An interval of time in a session."""

    kind: IntervalKind
    name: str
    """Name of the model, tool or hook; for a turn, its id."""
    start: float
    """Seconds since the epoch."""
    end: float
    turn: int
    """Index of its turn among all turns, from 0."""
    record: ModelCalled | ToolResult | HookCompleted | CompactionSaved | Shortened | None = None
    """The record that the interval was computed from."""
    error: str = ""
    """Failure in one word; empty on success."""

    @property
    def duration_s(self) -> float:
        """Length of the interval in seconds."""
        return max(0.0, self.end - self.start)


class Timing:
    """The intervals of a session, built record by record."""

    def __init__(self, records: Iterable[AnyRecord] = ()) -> None:
        self.intervals: list[Interval] = []
        """In the order of their records, without the turns."""
        self.turns: list[Interval] = []
        self.prompted: set[int] = set()
        """Indices of the turns that began with a prompt of the user."""
        self._open = False
        self._crashed = False
        self._answered = 0.0
        """Time when the calls in progress were requested; 0 if there are none."""
        self._begun: set[str] = set()
        """Calls whose start is recorded."""
        self._together: list[int] = []
        """Indices in `intervals` of tools that may have run in parallel."""
        self._failed: ModelCalled | None = None
        for record in records:
            self.add(record)

    def add(self, record: AnyRecord) -> None:
        """Process one record, after those before it."""
        match record:
            case UserMessage(origin="human") if not self._open or record.turn_id != self.turns[-1].name:
                self._begin(record.turn_id, record.time)
                self.prompted.add(len(self.turns) - 1)
            case RequestSent():
                self._extend(record.turn_id, record.time)
            case ModelCalled():
                self._model(record)
            case AssistantMessage():
                self._answered, self._together = record.time, []
                self._extend(record.turn_id, record.time)
            case CallStarted():
                self._begun.add(record.call_id)
            case ToolResult():
                self._tool(record)
            case HookCompleted():
                start = record.time - record.duration_s
                self._add("hook", record.event, start, record.time, record, "failed" if record.failure else "")
            case CompactionSaved() | Shortened():
                self._add("compaction", "compaction", record.time, record.time, record)
            case TurnEnded() if self._open:
                self._extend(record.turn_id, record.time)
                self._open = False

    def _begin(self, turn_id: str, at: float) -> None:
        self._open, self._crashed, self._failed, self._answered, self._together = True, False, None, 0.0, []
        self.turns.append(Interval(kind="turn", name=turn_id, start=at, end=at, turn=len(self.turns)))

    def _extend(self, turn_id: str, until: float, since: float | None = None) -> None:
        """Extend the current turn to a moment. If there is no turn, start one: a compaction was requested, or the
        session was written by another program and has no prompts."""
        if not self._open:
            self._begin(turn_id, until if since is None else since)
        turn = self.turns[-1]
        if until > turn.end and not self._crashed:
            self.turns[-1] = msgspec.structs.replace(turn, end=until)

    def _add(
        self,
        kind: IntervalKind,
        name: str,
        start: float,
        end: float,
        record: ModelCalled | ToolResult | HookCompleted | CompactionSaved | Shortened,
        error: str = "",
    ) -> None:
        place = max(0, len(self.turns) - 1)
        interval = Interval(kind=kind, name=name, start=start, end=end, turn=place, record=record, error=error)
        self.intervals.append(interval)

    def _model(self, call: ModelCalled) -> None:
        start = call.time - call.duration_s
        if call.agent:
            if not self.turns:  # keep the cost of the call even if nothing else is known
                self._begin(call.turn_id, start)
            self._add("model", call.model, start, call.time, call, _error_of(call))
            return
        if call.outcome == "crashed":
            self._crashed = True  # written when the session was reopened, perhaps days later
        self._extend(call.turn_id, call.time, start)
        failed = self._failed
        if failed is not None and failed.kind == call.kind and start - failed.time > _SHORTEST_PAUSE_S:
            self._add("retry", failed.outcome, failed.time, start, failed, failed.outcome)
        self._failed = call if _error_of(call) and call.outcome != "crashed" else None
        self._add("model", call.model, start, call.time, call, _error_of(call))

    def _tool(self, result: ToolResult) -> None:
        end, ran_s = result.time, max(0.0, result.duration_s)
        self._extend(result.turn_id, end, end - ran_s)
        error = "" if result.status == "ok" else result.status
        start = max(end - ran_s, self._answered) if self._answered else end - ran_s
        if result.waited_s:
            self._add("waiting", result.tool, max(start - result.waited_s, self._answered), start, result)
        kind: IntervalKind = "waiting" if result.tool in _ASKS and not result.waited_s else "tool"
        self._add(kind, result.tool, start, end, result, error)
        if result.call_id in self._begun or result.waited_s:
            self._together = []
        else:
            self._lay_together(len(self.intervals) - 1)

    def _lay_together(self, place: int) -> None:
        """Give tools that must have run in parallel the same start."""
        interval = self.intervals[place]
        before = self.intervals[self._together[-1]] if self._together else None
        if before is None or interval.start >= before.start + before.duration_s or not interval.duration_s:
            self._together = [place]
            return
        self._together.append(place)
        start = min(self.intervals[at].start for at in self._together)
        for at in self._together:
            each = self.intervals[at]
            self.intervals[at] = msgspec.structs.replace(each, start=start, end=start + each.duration_s)


def shares_of(turn: Interval, intervals: Iterable[Interval]) -> dict[Share, float]:
    """Divide a turn's time, in seconds, by category; the parts add up to its duration.

    Args:
        turn: the turn.
        intervals: intervals in the turn, clipped to it. Calls of sub-agents are ignored, since the tool that waits
            for them accounts for the time.
    """
    pieces: list[tuple[float, float, Share]] = []
    for interval in intervals:
        pieces += _pieces(interval)
    marks: list[tuple[float, int, Share]] = []
    for start, end, share in pieces:
        start, end = max(start, turn.start), min(end, turn.end)
        if end > start:
            marks += [(start, 1, share), (end, -1, share)]
    found = dict.fromkeys(SHARES, 0.0)
    at_work = dict.fromkeys(SHARES, 0)
    last = turn.start
    for at, change, share in sorted(marks):
        if at > last:
            found[next((each for each in _FIRST if at_work[each]), "overhead")] += at - last
            last = at
        at_work[share] += change
    found["overhead"] += max(0.0, turn.end - last)
    return found


def by_turn(timing: Timing) -> list[list[Interval]]:
    """Return the intervals of each turn, in the order of the turns."""
    found: list[list[Interval]] = [[] for _ in timing.turns]
    for interval in timing.intervals:
        if found:
            found[interval.turn].append(interval)
    return found


def percentile(values: Sequence[float], share: float = 0.95) -> float:
    """Return the smallest value that at least a `share` (0 to 1) of the values do not exceed; 0 for no values."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(len(ordered) * share * 1000) // 1000) - 1)] if ordered else 0.0


def _pieces(interval: Interval) -> list[tuple[float, float, Share]]:
    match interval:
        case Interval(kind="model", record=ModelCalled() as call):
            if call.agent:
                return []
            first = interval.end if call.first_token_s is None else interval.start + call.first_token_s
            first = min(first, interval.end)
            return [(interval.start, first, "first_token"), (first, interval.end, "streaming")]
        case Interval(kind="tool" | "waiting" | "retry" | "hook" as kind):
            return [(interval.start, interval.end, kind)]
        case _:
            return []


def _error_of(call: ModelCalled) -> str:
    return "" if call.outcome in FINISHES else call.outcome
