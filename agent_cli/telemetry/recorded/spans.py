"""Build spans from the records of a session file and of its sub-agents' files, as `telemetry/spans.py` does from
events. Ids are derived from the records, so that the same file always yields the same spans."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from agent_cli.protocol.messages import FINISHES, ToolResult
from agent_cli.protocol.records import (
    AgentStateChanged,
    AnyRecord,
    CompactionSaved,
    Header,
    HookCompleted,
    ModelCalled,
    TurnEnded,
    header_of,
)
from agent_cli.session.timing import Interval, Timing, by_turn
from agent_cli.store.catalog import children_folder
from agent_cli.store.session_file import StoreError, read_session

from .. import conventions as names
from ..open_spans import OpenModelCall, call_attributes, result_attributes, usage_attributes
from ..span import Attribute, Span, SpanKind
from ..traceparent import tool_span_id


class Recorded(msgspec.Struct, frozen=True):
    """The records of a session and of its sub-agents."""

    records: tuple[AnyRecord, ...]
    children: tuple["Recorded", ...] = ()

    @property
    def header(self) -> Header:
        """The first record."""
        return header_of(self.records)


def recorded(path: Path) -> Recorded:
    """Read a session file and the files of its sub-agents; unreadable sub-agent files are skipped.

    Raises:
        StoreError: the session itself cannot be read.
    """
    return Recorded(plausible(read_session(path).records)[0], tuple(_children(path)))


def agent_files(path: Path) -> Iterator[Path]:
    """Yield the files of a session's sub-agents, and of theirs."""
    for file in _own_agents(path):
        yield file
        yield from agent_files(file)


def _own_agents(path: Path) -> list[Path]:
    folder = children_folder(path)
    return sorted(folder.glob("*.json")) if folder.is_dir() and not folder.is_symlink() else []


def _children(path: Path) -> Iterator[Recorded]:
    for file in _own_agents(path):
        try:
            yield recorded(file)
        except (StoreError, OSError):
            continue


def spans_of(session: Recorded) -> list[Span]:
    """Return the spans of a session, by their start. Tokens and cost of the `model` spans add up to those of the
    session's ledger: a call of a sub-agent appears where the sub-agent's file records it, else in the turn that
    paid for it."""
    found = _Builder(session.header.session_id, _sessions(session.children)).spans(session)
    return sorted(found, key=lambda span: (span.start, -span.end))


def _sessions(children: Iterable[Recorded]) -> frozenset[str]:
    ids: set[str] = set()
    for child in children:
        ids |= {child.header.session_id, *_sessions(child.children)}
    return frozenset(ids)


class _Builder:
    """Builds the spans of a conversation."""

    def __init__(self, conversation: str, agents: frozenset[str]) -> None:
        self._conversation = conversation
        self._agents = agents
        """Sessions of sub-agents whose own calls are known."""

    def spans(self, session: Recorded) -> list[Span]:
        """Return all spans, unordered."""
        timing = Timing(session.records)
        ends = {record.turn_id: record for record in session.records if isinstance(record, TurnEnded)}
        found: list[Span] = []
        traces: dict[str, tuple[str, str]] = {}
        for turn, intervals in zip(timing.turns, by_turn(timing), strict=True):
            trace_id = _id(32, self._conversation, turn.name, str(turn.turn))
            root = _id(16, trace_id, "turn")
            attributes: dict[str, Attribute] = {names.AGENT_NAME: names.SERVICE}
            end = ends.get(turn.name)
            if end is not None:
                attributes[names.STOP_REASON] = end.stop_reason
            error = "" if end is None or not end.error else str(end.stop_reason)
            found.append(self._span(trace_id, root, "", "agent", names.SERVICE, turn, attributes, error))
            found += self._inside(intervals, trace_id, root, "")
            for each in intervals:
                if isinstance(each.record, ToolResult):
                    call_id = each.record.call_id
                    traces[call_id] = trace_id, tool_span_id(trace_id, "", call_id)
        last = (found[0].trace_id, found[0].span_id) if found else (_id(32, self._conversation), "")
        for child in session.children:
            found += self._child(child, *traces.get(child.header.call_id, last))
        return found

    def _child(self, child: Recorded, trace_id: str, parent_id: str) -> list[Span]:
        """Return the spans of a sub-agent, within the call that started it."""
        header = child.header
        timing = Timing(child.records)
        root = _id(16, trace_id, header.session_id)
        states = [each for each in child.records if isinstance(each, AgentStateChanged)]
        end = max((turn.end for turn in timing.turns), default=header.time)
        whole = Interval(kind="turn", name=header.agent_name, start=header.time, end=end, turn=0)
        kind = names.plain(header.agent_type)
        attributes: dict[str, Attribute] = {
            names.AGENT_NAME: kind,
            names.AGENT_ID: header.session_id,
            names.BACKGROUND: any(each.background for each in states),
        }
        state = states[-1].state if states else "stopped"
        error = "" if state == "done" else "stopped" if state == "running" else state
        found = [self._span(trace_id, root, parent_id, "agent", kind, whole, attributes, error)]
        found += self._inside(timing.intervals, trace_id, root, header.session_id)
        for inner in child.children:
            found += self._child(inner, trace_id, tool_span_id(trace_id, header.session_id, inner.header.call_id))
        return found

    def _inside(self, intervals: Sequence[Interval], trace_id: str, root: str, agent_id: str) -> Iterator[Span]:
        """Yield the spans inside a turn. The attempts of a model call form a single span, which contains the
        pauses."""
        common: dict[str, Attribute] = {names.AGENT_ID: agent_id} if agent_id else {}
        call: OpenModelCall | None = None
        pauses: list[Interval] = []
        for interval in intervals:
            match interval:
                case Interval(kind="model", record=ModelCalled() as entry) if entry.agent in self._agents:
                    pass
                case Interval(kind="model", record=ModelCalled() as entry):
                    if call is not None and (not pauses or pauses[-1].start != call.last_at):
                        yield from self._model(call, pauses)
                        call, pauses = None, []
                    call = call or self._call(entry, interval, trace_id, root, common)
                    call.book(entry)
                case Interval(kind="retry"):
                    pauses.append(interval)
                case _:
                    yield from self._other(interval, trace_id, root, agent_id, common)
            if call is not None and call.answered_at:
                yield from self._model(call, pauses)
                call, pauses = None, []
        if call is not None:
            yield from self._model(call, pauses)

    def _call(
        self, entry: ModelCalled, interval: Interval, trace_id: str, root: str, common: dict[str, Attribute]
    ) -> OpenModelCall:
        name = names.plain(entry.model)
        return OpenModelCall(
            trace_id=trace_id, parent_id=root, kind="model", name=name, start=interval.start,
            span_id=_id(16, trace_id, entry.id), call_kind=entry.kind,
            attributes={**common, names.CONVERSATION: self._conversation, **call_attributes(name, entry.kind)},
        )  # fmt: skip

    def _model(self, call: OpenModelCall, pauses: Sequence[Interval]) -> Iterator[Span]:
        call.attributes |= usage_attributes(call.totals)
        yield call.closed(call.last_at, "" if call.outcome in FINISHES else call.outcome)
        for number, pause in enumerate(pauses, start=1):
            pause_id = _id(16, call.span_id, str(number))
            attributes: dict[str, Attribute] = {names.ATTEMPT: number, names.DELAY_S: pause.duration_s}
            yield self._span(
                call.trace_id, pause_id, call.span_id, "retry", "retry", pause, attributes, pause.error
            )

    def _other(
        self, interval: Interval, trace_id: str, root: str, agent_id: str, common: dict[str, Attribute]
    ) -> Iterator[Span]:
        match interval.record:
            case ToolResult() as result:
                name = names.tool_name(result.tool)
                call_span = tool_span_id(trace_id, agent_id, result.call_id)
                if interval.kind == "waiting" and result.waited_s:
                    kind: SpanKind = "question" if result.tool == "ask_user" else "approval"
                    wait_id = _id(16, call_span, "waiting")
                    yield self._span(trace_id, wait_id, call_span, kind, name, interval, common)
                    return
                whole = msgspec.structs.replace(interval, start=interval.start - result.waited_s)
                attributes = common | _of_result(result, name)
                yield self._span(trace_id, call_span, root, "tool", name, whole, attributes, interval.error)
            case HookCompleted() as hook:
                decided: dict[str, Attribute] = {names.HOOK_EVENT: hook.event, names.HOOK_DECISION: hook.decision}
                span_id = _id(16, trace_id, hook.id)
                yield self._span(
                    trace_id, span_id, root, "hook", hook.event, interval, common | decided, interval.error
                )
            case CompactionSaved() as saved:
                sizes: dict[str, Attribute] = {
                    names.HOW: saved.how, names.TOKENS_BEFORE: saved.before, names.TOKENS_AFTER: saved.after
                }  # fmt: skip
                span_id = _id(16, trace_id, saved.id)
                yield self._span(trace_id, span_id, root, "compaction", "compaction", interval, common | sizes)

    def _span(
        self,
        trace_id: str,
        span_id: str,
        parent_id: str,
        kind: SpanKind,
        name: str,
        interval: Interval,
        attributes: dict[str, Attribute],
        error: str = "",
    ) -> Span:
        return Span(
            trace_id=trace_id, span_id=span_id, parent_id=parent_id, kind=kind, name=name,
            start=interval.start, end=max(interval.start, interval.end), error=error,
            attributes={names.CONVERSATION: self._conversation, **attributes},
        )  # fmt: skip


def _of_result(result: ToolResult, name: str) -> dict[str, Attribute]:
    server = names.mcp_server(name)
    return {
        names.TOOL_NAME: name,
        names.TOOL_TYPE: "function",
        **result_attributes(result),
        **({names.MCP_SERVER: server} if server else {}),
    }


def _id(length: int, *parts: str) -> str:
    text = "\n".join(parts).encode("utf-8", "replace")
    return hashlib.blake2b(text, digest_size=length // 2).hexdigest()


_MOST_TIME = float(1 << 34)
"""Maximum time in seconds since the epoch."""
_MOST = 1e9
"""Maximum seconds or US dollars of a record."""
_MOST_TOKENS = 1 << 40
_AMOUNTS = ("duration_s", "waited_s", "first_token_s", "cost_usd", "at_most_usd")
_TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning")


def plausible(records: Iterable[AnyRecord]) -> tuple[tuple[AnyRecord, ...], int]:
    """Return the plausible records, and the number of others, which a damaged or forged file has and which would
    spoil every sum. The header is always kept, with its time corrected."""
    found: list[AnyRecord] = []
    left_out = 0
    for record in records:
        if _is_plausible(record):
            found.append(record)
            continue
        left_out += 1
        if isinstance(record, Header):
            found.append(msgspec.structs.replace(record, time=0.0))
    return tuple(found), left_out


def _is_plausible(record: AnyRecord) -> bool:
    if not 0 <= record.time < _MOST_TIME:
        return False
    amounts = (getattr(record, name, None) for name in _AMOUNTS)
    usage = getattr(record, "usage", None)
    tokens = (getattr(usage, name, None) for name in _TOKENS)
    return all(each is None or abs(each) <= _MOST for each in amounts) and all(
        each is None or abs(each) <= _MOST_TOKENS for each in tokens
    )
