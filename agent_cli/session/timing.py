"""Read out of a session's records what took how long: stretches of time by what happened in them, and how each
turn divides among them. Pure.

Records carry the time at which they were written. Of a model call, a tool's run and a hook that is the end, and
the duration stands beside it. Tools that ran together are recorded together when the last has ended, so that they
are laid at one beginning. What records do not tell is `overhead`: the program's own work, and in sessions of
earlier versions also the waiting for approvals.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import msgspec

from agent_cli.protocol.messages import AssistantMessage, Finish, ToolResult, UserMessage
from agent_cli.protocol.records import (
    AnyRecord,
    CallStarted,
    CompactionSaved,
    HookNoted,
    ModelCalled,
    RequestSent,
    Shortened,
    TurnEnded,
)

StretchKind = Literal["turn", "model", "tool", "waiting", "retry", "compaction", "hook"]
"""`waiting`: for the user, over one call. `retry`: the pause behind a failed attempt. `compaction`: the moment at
which the window was made smaller."""

Share = Literal["first_token", "streaming", "tool", "waiting", "retry", "hook", "overhead"]
"""What a moment of a turn goes to. `first_token`: a model was asked and had not begun to answer. `streaming`: it
answered. `waiting`: for the user. `retry`: the pauses before another attempt. `overhead`: what is left, ours."""
SHARES: tuple[Share, ...] = get_args(Share)

_FIRST: tuple[Share, ...] = ("streaming", "first_token", "waiting", "tool", "hook", "retry")
"""Which of several at one moment counts."""
FINISHES = frozenset(get_args(Finish))
"""Outcomes of model calls that are no failures."""
_SHORTEST_PAUSE_S = 0.001
_ASKS = frozenset({"ask_user"})


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """One stretch of time in a session."""

    kind: StretchKind
    name: str
    """Of the model, the tool or the hook; of a turn its id."""
    start: float
    """Seconds since the epoch."""
    end: float
    turn: int
    """Place of its turn among all turns, from 0."""
    record: ModelCalled | ToolResult | HookNoted | CompactionSaved | Shortened | None = None
    """What it is read from."""
    error: str = ""
    """How it failed, one word; empty where it went well."""

    @property
    def duration_s(self) -> float:
        """Return how long it took, in seconds."""
        return max(0.0, self.end - self.start)


class Timing:
    """The stretches of a session, taken in record by record."""

    def __init__(self, records: Iterable[AnyRecord] = ()) -> None:
        self.stretches: list[Stretch] = []
        """In the order of their records; turns are not among them."""
        self.turns: list[Stretch] = []
        self.prompted: set[int] = set()
        """Places of the turns that began with a prompt of the user."""
        self._open = False
        self._crashed = False
        self._answered = 0.0
        """When the calls at work were asked for; 0 while there are none."""
        self._begun: set[str] = set()
        """Calls whose own beginning is recorded."""
        self._together: list[int] = []
        """Places in `stretches` of tools that may have run together."""
        self._failed: ModelCalled | None = None
        for record in records:
            self.add(record)

    def add(self, record: AnyRecord) -> None:
        """Take in one record, behind those before it."""
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
            case HookNoted():
                start = record.time - record.duration_s
                self._add("hook", record.event, start, record.time, record, "failed" if record.failure else "")
            case CompactionSaved() | Shortened():
                self._add("compaction", "compaction", record.time, record.time, record)
            case TurnEnded() if self._open:
                self._extend(record.turn_id, record.time)
                self._open = False
            case _:
                pass

    def _begin(self, turn_id: str, at: float) -> None:
        self._open, self._crashed, self._failed, self._answered, self._together = True, False, None, 0.0, []
        self.turns.append(Stretch(kind="turn", name=turn_id, start=at, end=at, turn=len(self.turns)))

    def _extend(self, turn_id: str, until: float, since: float | None = None) -> None:
        """Have the turn at work reach to a moment. Where none is, one begins: a compaction was asked for, or the
        session of another program has no prompts."""
        if not self._open:
            self._begin(turn_id, until if since is None else since)
        turn = self.turns[-1]
        if until > turn.end and not self._crashed:
            self.turns[-1] = msgspec.structs.replace(turn, end=until)

    def _add(
        self,
        kind: StretchKind,
        name: str,
        start: float,
        end: float,
        record: ModelCalled | ToolResult | HookNoted | CompactionSaved | Shortened,
        error: str = "",
    ) -> None:
        place = max(0, len(self.turns) - 1)
        stretch = Stretch(kind=kind, name=name, start=start, end=end, turn=place, record=record, error=error)
        self.stretches.append(stretch)

    def _model(self, call: ModelCalled) -> None:
        start = call.time - call.duration_s
        if call.agent:
            if not self.turns:  # what it cost is not left out where nothing else is known
                self._begin(call.turn_id, start)
            self._add("model", call.model, start, call.time, call, _error_of(call))
            return
        if call.outcome == "crashed":
            self._crashed = True  # written when the session was opened again, perhaps days later
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
        kind: StretchKind = "waiting" if result.tool in _ASKS and not result.waited_s else "tool"
        self._add(kind, result.tool, start, end, result, error)
        if result.call_id in self._begun or result.waited_s:
            self._together = []
        else:
            self._lay_together(len(self.stretches) - 1)

    def _lay_together(self, place: int) -> None:
        """Give tools that can only have run at once the same beginning."""
        stretch = self.stretches[place]
        before = self.stretches[self._together[-1]] if self._together else None
        if before is None or stretch.start >= before.start + before.duration_s or not stretch.duration_s:
            self._together = [place]
            return
        self._together.append(place)
        start = min(self.stretches[at].start for at in self._together)
        for at in self._together:
            each = self.stretches[at]
            self.stretches[at] = msgspec.structs.replace(each, start=start, end=start + each.duration_s)


def shares_of(turn: Stretch, stretches: Iterable[Stretch]) -> dict[Share, float]:
    """Divide a turn's time, in seconds, among what happened in it; the parts add up to its duration.

    Args:
        turn: the turn.
        stretches: what happened in it; what sticks out is cut off, and calls of sub-agents are left out, since the
            tool that waits for them has the time.
    """
    pieces: list[tuple[float, float, Share]] = []
    for stretch in stretches:
        pieces += _pieces(stretch)
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


def by_turn(timing: Timing) -> list[list[Stretch]]:
    """Return the stretches of each turn, in the order of the turns."""
    found: list[list[Stretch]] = [[] for _ in timing.turns]
    for stretch in timing.stretches:
        if found:
            found[stretch.turn].append(stretch)
    return found


def percentile(values: Sequence[float], share: float = 0.95) -> float:
    """Return the smallest value that is not exceeded by `share` (0 to 1) of the values; 0 for none."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(len(ordered) * share * 1000) // 1000) - 1)] if ordered else 0.0


def _pieces(stretch: Stretch) -> list[tuple[float, float, Share]]:
    match stretch:
        case Stretch(kind="model", record=ModelCalled() as call):
            if call.agent:
                return []
            first = stretch.end if call.first_token_s is None else stretch.start + call.first_token_s
            first = min(first, stretch.end)
            return [(stretch.start, first, "first_token"), (first, stretch.end, "streaming")]
        case Stretch(kind="tool" | "waiting" | "retry" | "hook" as kind):
            return [(stretch.start, stretch.end, kind)]
        case _:
            return []


def _error_of(call: ModelCalled) -> str:
    return "" if call.outcome in FINISHES else call.outcome
