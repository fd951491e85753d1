"""Build spans from a session's events and its ledger.

    invoke_agent (a turn) ─┬─ chat MODEL ─ wait.retry
                           ├─ execute_tool TOOL ─┬─ wait.queue, wait.approval, wait.question
                           │                     └─ invoke_agent (a sub-agent) ─ …
                           └─ compaction ─ chat MODEL

A span is emitted when it ends. Nothing here waits or does I/O. Each lane (the session itself, or one of its
sub-agents) keeps its open spans, and closes them with its turn. The events of a sub-agent arrive a little later
than its ledger entries; the events' own times count.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from agent_cli.protocol import events as ev
from agent_cli.protocol.agent_types import ENDED
from agent_cli.protocol.records import ModelCalled
from agent_cli.protocol.usage import NON_CONVERSATION_KINDS, CallKind, Totals

from . import conventions as names
from . import open_spans
from .content import NO_CONTENT, Content
from .span import Attribute, Span, SpanKind
from .traceparent import Parent, new_trace_id, tool_span_id

_QUEUE_S = 0.0015
"""Minimum wait of a tool call, in seconds, that is worth a span."""
POST_CALL_SUFFIX = ".after"
"""Suffix of a call's id in the id of a command that a rule runs after the call."""
_MOST_LATE = 1000
"""Maximum number of attempts kept for events that may still arrive."""


class Lane(msgspec.Struct, kw_only=True):
    """The open spans of the session itself, or of a sub-agent."""

    agent_id: str = ""
    """Empty for the session itself."""
    name: str = ""
    trace_id: str = ""
    root: open_spans.OpenSpan | None = None
    submission_id: str = ""
    totals: Totals = Totals()
    steps: int = 0
    calls: int = 0
    tools: dict[str, open_spans.OpenTool] = msgspec.field(default_factory=dict)
    ended: set[str] = msgspec.field(default_factory=set)
    """Ids of calls that have a result."""
    models: list[open_spans.OpenModelCall] = msgspec.field(default_factory=list)
    compaction: open_spans.OpenSpan | None = None
    unclaimed: list[ModelCalled] = msgspec.field(default_factory=list)
    """Attempts recorded before the event that began their call has arrived."""


class SpanBuilder:
    """Observes a session, including its sub-agents."""

    def __init__(
        self, emit: Callable[[Span], None], parent: Parent | None = None, content: Content = NO_CONTENT
    ) -> None:
        """`emit` gets each span when it ends. `parent` is the span of the parent program. `content` decides which
        texts spans may contain."""
        self._emit = emit
        self._parent = parent or Parent()
        self._content = content
        self._own = Lane(name=names.SERVICE)
        self._agents: dict[str, Lane] = {}
        self._waits: dict[str, tuple[Lane, list[open_spans.OpenSpan]]] = {}
        """Approvals and questions, by request id."""
        self._conversation = ""
        self._settings: dict[str, Attribute] = {}

    def ids_of(self, agent_id: str, call_id: str) -> tuple[str, str]:
        """Return the trace id and span id of a tool call, even if a sub-agent has not announced it yet; those of
        the turn for a command outside of calls. Both are empty if there is no turn."""
        lane = self._lane(agent_id) or self._own
        if lane.root is None:
            return "", ""
        call_id = call_id.removesuffix(POST_CALL_SUFFIX)
        return lane.trace_id, self._tool_id(lane, call_id) if _may_run(lane, call_id) else lane.root.span_id

    def book(self, entry: ModelCalled) -> None:
        """Process an entry of the session's ledger after it was saved; entries of sub-agents name theirs."""
        lane = self._lane(entry.agent) or self._own
        model = next((each for each in reversed(lane.models) if _is_of(entry, each)), None)
        if model is None and lane.agent_id:
            lane.unclaimed.append(entry)
            del lane.unclaimed[:-_MOST_LATE]
            return
        if model is None:
            self._emit_unannounced(lane, entry)
            return
        self._emit_pauses(model, entry.time - entry.duration_s)
        model.book(entry)
        if model.answered_at and model.call_kind in NON_CONVERSATION_KINDS:
            self._close_model(lane, model, entry.time)

    def event(self, event: ev.AnyEvent) -> None:
        """Process an event of the session."""
        lane: Lane | None = self._own
        time = event.time
        if isinstance(event, ev.AgentEvent):
            lane, event = self._lane(event.agent_id), event.event
            time = event.time or time
        handler = _HANDLERS.get(type(event))
        if handler is None or lane is None:
            return
        if not isinstance(event, ev.AnswerCompleted):
            for model in [each for each in lane.models if each.answered_at]:
                self._close_model(lane, model, model.answered_at)
        handler(self, lane, event, time)

    def close(self, time: float) -> None:
        """End all open spans."""
        for lane in (*self._agents.values(), self._own):
            self._close(lane, time, "closed")

    # Turns and sub-agents

    def _session_started(self, lane: Lane, event: ev.SessionStarted, time: float) -> None:
        if lane.agent_id:
            return
        self._conversation = event.session_id
        self._settings = {
            names.MODE: event.mode,
            names.SANDBOX: event.sandbox,
            names.RESUMED: event.resumed,
        }

    def _settings_changed(self, lane: Lane, event: ev.SettingsChanged, time: float) -> None:
        if not lane.agent_id:
            self._settings[names.MODE] = event.mode

    def _turn_started(self, lane: Lane, event: ev.TurnStarted, time: float) -> None:
        if not lane.agent_id:
            self._close(lane, time, "abandoned")
            lane.trace_id = self._parent.trace_id or new_trace_id()
            lane.submission_id = event.submission_id
            lane.root = self._span(lane, "agent", names.SERVICE, time, self._parent.span_id)
            lane.root.attributes |= {names.AGENT_NAME: names.SERVICE, **self._settings}
        if lane.root is not None:
            self._content.prompt(lane.root.attributes, event.text)

    def _turn_ended(
        self, lane: Lane, event: ev.TurnCompleted | ev.TurnAborted | ev.TurnFailed, time: float
    ) -> None:
        if lane.root is None or (not lane.agent_id and event.submission_id != lane.submission_id):
            return
        lane.root.attributes[names.STOP_REASON] = event.stop_reason
        error = "interrupted" if isinstance(event, ev.TurnAborted) else ""
        if isinstance(event, ev.TurnFailed):
            error = event.error.kind
        if lane.agent_id:
            self._close_inner(lane, time, error or "interrupted")
        else:
            self._close(lane, time, error)

    def _agent_changed(self, lane: Lane, event: ev.AgentChanged, time: float) -> None:
        found = self._agents.get(event.agent_id)
        if event.state in ENDED:
            if found is not None:
                self._close(found, time, "" if event.state == "done" else event.state)
            return
        if event.state == "queued" or (found is not None and found.root is not None):
            return
        above = self._lane(event.parent_id) or self._own
        found = found or Lane(agent_id=event.agent_id, name=event.agent_name)
        self._agents[event.agent_id] = found
        found.trace_id = above.trace_id or self._parent.trace_id or new_trace_id()
        parent_id = self._place_of(above, event.call_id)
        found.root = self._span(found, "agent", names.plain(event.agent_type), time, parent_id)
        found.root.attributes |= {
            names.AGENT_NAME: names.plain(event.agent_type),
            names.BACKGROUND: event.background,
        }

    def _place_of(self, above: Lane, call_id: str) -> str:
        """Return the parent span of a sub-agent: the call that started or currently continues it; else the
        turn."""
        if _may_run(above, call_id):
            return self._tool_id(above, call_id)
        calls = [each for each in above.tools.values() if each.runs and each.name in ("agent", "agents")]
        if len(calls) == 1:
            return calls[0].span_id
        return above.root.span_id if above.root is not None else self._parent.span_id

    def _session_closed(self, lane: Lane, event: ev.SessionClosed, time: float) -> None:
        if not lane.agent_id:
            self.close(time)

    # Model calls

    def _step_started(self, lane: Lane, event: ev.StepStarted, time: float) -> None:
        for model in [each for each in lane.models if _same_line(each.call_kind, event.kind)]:
            self._close_model(lane, model, model.last_at or time)
        if event.kind == "summary" and lane.compaction is None:
            lane.compaction = self._span(lane, "compaction", "compaction", time)
        elif event.kind in ("main", "limit"):
            self._close_compaction(lane, time)
        inside = lane.compaction.span_id if event.kind == "summary" and lane.compaction else ""
        name = names.plain(event.model)
        model = open_spans.OpenModelCall(
            trace_id=lane.trace_id or new_trace_id(),
            parent_id=inside or _root_id(lane),
            kind="model",
            name=name,
            start=time,
            call_kind=event.kind,
            attributes=self._common(lane) | open_spans.call_attributes(name, event.kind) | {names.STREAM: True},
        )
        lane.steps += event.kind == "main"
        lane.models.append(model)
        late, lane.unclaimed = lane.unclaimed, []
        for entry in late:
            self.book(entry)

    def _retry_scheduled(self, lane: Lane, event: ev.RetryScheduled, time: float) -> None:
        if not lane.models:
            return
        model = lane.models[-1]
        self._emit_pauses(model, time)
        attributes: dict[str, Attribute] = {
            names.ATTEMPT: event.attempt,
            names.DELAY_S: event.delay_s,
            names.PARKED: event.parked,
        }
        model.pauses.append((time, time + event.delay_s, attributes, event.error.kind))

    def _answer_completed(self, lane: Lane, event: ev.AnswerCompleted, time: float) -> None:
        answers = [each for each in lane.models if each.call_kind not in NON_CONVERSATION_KINDS]
        if not answers:
            return
        model = answers[-1]
        if not model.totals.requests:  # the ledger is not observed
            model.book(
                ModelCalled(
                    id="", kind=model.call_kind, model=model.name, outcome=event.finish, usage=event.usage,
                    cost_usd=event.cost_usd, first_token_s=event.first_token_s, time=time,
                )
            )  # fmt: skip
        self._content.answer(model.attributes, event.text, event.finish)
        self._close_model(lane, model, time)

    def _close_model(self, lane: Lane, model: open_spans.OpenModelCall, time: float) -> None:
        lane.models.remove(model)
        self._emit_pauses(model, time)
        model.attributes |= open_spans.usage_attributes(model.totals)
        lane.totals = open_spans.added(lane.totals, model.totals)
        self._end(model, time, model.error)

    def _emit_pauses(self, model: open_spans.OpenModelCall, time: float) -> None:
        """Emit the spans of pauses before attempts, which end now at the latest."""
        pauses, model.pauses = model.pauses, []
        for start, planned_end, attributes, error in pauses:
            span = open_spans.OpenSpan(
                trace_id=model.trace_id, parent_id=model.span_id, kind="retry", name="retry", start=start,
                attributes=attributes,
            )  # fmt: skip
            for name in (names.CONVERSATION, names.AGENT_ID):
                if name in model.attributes:
                    span.attributes[name] = model.attributes[name]
            self._end(span, max(start, min(planned_end, time)), error)

    # Tools and waits

    def _tool_requested(self, lane: Lane, event: ev.ToolCallRequested, time: float) -> None:
        name = names.tool_name(event.tool)
        tool = lane.tools[event.call_id] = open_spans.OpenTool(
            span_id=self._tool_id(lane, event.call_id),
            trace_id=lane.trace_id,
            parent_id=_root_id(lane),
            kind="tool",
            name=name,
            start=time,
            idle_since=time,
            attributes=self._common(lane)
            | {
                names.TOOL_NAME: name,
                names.TOOL_TYPE: "function",
                names.ARGUMENTS_CHARS: len(event.arguments),
            },
        )
        lane.calls += 1
        if (call_id := names.plain(event.call_id)) != "other":
            tool.attributes[names.TOOL_CALL] = call_id
        if server := names.mcp_server(name):
            tool.attributes |= {names.MCP_METHOD: "tools/call", names.MCP_SERVER: server}
        self._content.arguments(tool.attributes, event.arguments)

    def _tool_started(self, lane: Lane, event: ev.ToolCallStarted, time: float) -> None:
        if (tool := lane.tools.get(event.call_id)) is not None:
            self._emit_queue(lane, tool, time)
            tool.runs = True

    def _tool_finished(self, lane: Lane, event: ev.ToolCallFinished, time: float) -> None:
        lane.ended.add(event.call_id)
        tool = lane.tools.pop(event.call_id, None)
        if tool is None:
            return
        self._emit_queue(lane, tool, time)
        tool.attributes |= open_spans.result_attributes(event)
        self._content.result(tool.attributes, event.text, event.command)
        is_mcp = names.MCP_METHOD in tool.attributes and event.status == "failed"
        self._end(tool, time, "tool_error" if is_mcp else "" if event.status == "ok" else event.status)

    def _emit_queue(self, lane: Lane, tool: open_spans.OpenTool, time: float) -> None:
        if not tool.runs and time - tool.idle_since >= _QUEUE_S:
            self._end(self._span(lane, "queue", tool.name, tool.idle_since, tool.span_id), time)
        tool.idle_since = time

    def _approval_requested(self, lane: Lane, event: ev.ApprovalRequested, time: float) -> None:
        lane = self._named(event.agent_name) or lane
        waits = []
        for item in event.items:
            if (tool := lane.tools.get(item.call_id)) is not None:
                self._emit_queue(lane, tool, time)
            parent_id = self._tool_id(lane, item.call_id)
            wait = self._span(lane, "approval", names.tool_name(item.tool), time, parent_id)
            wait.attributes |= {names.TOOL_NAME: wait.name, names.RULE: names.rule_name(item.rule)}
            waits.append(wait)
            if tool is not None:
                tool.idle_since = float("inf")
        self._waits[event.request_id] = lane, waits

    def _question_asked(self, lane: Lane, event: ev.QuestionAsked, time: float) -> None:
        lane = self._named(event.agent_name) or lane
        running = [each for each in lane.tools.values() if each.runs]
        parent_id = running[0].span_id if len(running) == 1 else ""
        self._waits[event.request_id] = lane, [self._span(lane, "question", "question", time, parent_id)]

    def _resolved(self, lane: Lane, event: ev.ApprovalResolved | ev.QuestionResolved, time: float) -> None:
        lane, waits = self._waits.pop(event.request_id, (lane, []))
        for tool in lane.tools.values():
            if tool.idle_since == float("inf") and any(each.parent_id == tool.span_id for each in waits):
                tool.idle_since = time
        for wait in waits:
            wait.attributes[names.OUTCOME] = event.outcome
            self._end(wait, time, "" if event.outcome == "answered" else event.outcome)

    # Compaction, hooks and operations

    def _compacted(self, lane: Lane, event: ev.Compacted, time: float) -> None:
        span = lane.compaction or self._span(lane, "compaction", "compaction", time)
        span.attributes |= {
            names.HOW: event.how, names.TOKENS_BEFORE: event.before, names.TOKENS_AFTER: event.after
        }  # fmt: skip
        lane.compaction = None
        self._end(span, time)

    def _close_compaction(self, lane: Lane, time: float) -> None:
        if (span := lane.compaction) is not None:
            lane.compaction = None
            self._end(span, time, "not_reduced")

    def _hook_ran(self, lane: Lane, event: ev.HookRan, time: float) -> None:
        open_tools = list(lane.tools.values())
        parent_id = open_tools[0].span_id if len(open_tools) == 1 else ""
        name = names.plain(event.event)
        span = self._span(lane, "hook", name, time - event.duration_s, parent_id)
        span.attributes |= {names.HOOK_EVENT: name, names.HOOK_DECISION: event.decision}
        if lane.root is not None:
            span.start = max(span.start, lane.root.start)
        self._end(span, time, "failed" if event.failure else "")

    def _operation_ended(self, lane: Lane, event: ev.OperationCompleted | ev.OperationFailed, time: float) -> None:
        if lane.root is None:  # work between turns
            self._close_inner(lane, time, "not_done")

    # Ends of turns

    def _close(self, lane: Lane, time: float, error: str) -> None:
        """End a turn or a sub-agent with all its open spans."""
        self._close_inner(lane, time, error or "interrupted")
        root, lane.root = lane.root, None
        if root is not None:
            root.attributes |= open_spans.usage_attributes(lane.totals)
            root.attributes |= {names.STEPS: lane.steps, names.TOOL_CALLS: lane.calls}
            self._end(root, time, error)
        lane.totals, lane.steps, lane.calls = Totals(), 0, 0

    def _close_inner(self, lane: Lane, time: float, error: str) -> None:
        for entry in lane.unclaimed:  # calls that were never announced: their cost counts nevertheless
            self._emit_unannounced(lane, entry)
        lane.unclaimed = []
        for request_id, (owner, waits) in list(self._waits.items()):
            if owner is lane:
                del self._waits[request_id]
                for wait in waits:
                    self._end(wait, time, error)
        for model in list(lane.models):
            self._close_model(lane, model, model.answered_at or model.last_at or time)
        self._close_compaction(lane, time)
        tools, lane.tools = lane.tools, {}
        for tool in tools.values():
            self._emit_queue(lane, tool, time)
            self._end(tool, time, error)

    def _emit_unannounced(self, lane: Lane, entry: ModelCalled) -> None:
        name = names.plain(entry.model)
        span = self._span(lane, "model", name, entry.time - entry.duration_s)
        totals = Totals().plus(entry.usage, entry.cost_usd, entry.at_most_usd)
        lane.totals = open_spans.added(lane.totals, totals)
        span.attributes |= open_spans.call_attributes(name, entry.kind) | open_spans.usage_attributes(totals)
        self._end(span, entry.time)

    def _end(self, span: open_spans.OpenSpan, time: float, error: str = "") -> None:
        self._emit(span.closed(time, error))

    def _span(
        self, lane: Lane, kind: SpanKind, name: str, start: float, parent_id: str = ""
    ) -> open_spans.OpenSpan:
        return open_spans.OpenSpan(
            trace_id=lane.trace_id or new_trace_id(),
            parent_id=parent_id or (_root_id(lane) if kind != "agent" else ""),
            kind=kind,
            name=name,
            start=start,
            attributes=self._common(lane),
        )

    def _common(self, lane: Lane) -> dict[str, Attribute]:
        common: dict[str, Attribute] = {names.CONVERSATION: self._conversation}
        if lane.agent_id:
            common[names.AGENT_ID] = lane.agent_id
        return common

    def _tool_id(self, lane: Lane, call_id: str) -> str:
        return tool_span_id(lane.trace_id, lane.agent_id, call_id)

    def _lane(self, agent_id: str) -> Lane | None:
        return self._agents.get(agent_id) if agent_id else self._own

    def _named(self, agent_name: str) -> Lane | None:
        """Return the lane of a sub-agent whose questions are asked in the session's name."""
        found = (each for each in self._agents.values() if each.name == agent_name and each.root is not None)
        return next(found, None) if agent_name else None


def _is_of(entry: ModelCalled, model: open_spans.OpenModelCall) -> bool:
    """Return True if an attempt belongs to a model call. Entries of sub-agents do not tell the purpose of a
    call."""
    if entry.kind == "subagent":
        return model.start <= entry.time and not model.answered_at
    return _same_line(model.call_kind, entry.kind) and not model.answered_at


def _may_run(lane: Lane, call_id: str) -> bool:
    """Return True if a tool call is open. Events of a sub-agent may not have arrived yet."""
    return call_id in lane.tools or bool(call_id and lane.agent_id and call_id not in lane.ended)


def _same_line(kind: CallKind, other: CallKind) -> bool:
    """Return True if two calls cannot run at the same time: MCP servers query the model beside the turn."""
    return (kind == "sampling") == (other == "sampling")


def _root_id(lane: Lane) -> str:
    return lane.root.span_id if lane.root is not None else ""


_HANDLERS: dict[type, Callable[[SpanBuilder, Lane, Any, float], None]] = {
    ev.SessionStarted: SpanBuilder._session_started,
    ev.SettingsChanged: SpanBuilder._settings_changed,
    ev.TurnStarted: SpanBuilder._turn_started,
    ev.StepStarted: SpanBuilder._step_started,
    ev.RetryScheduled: SpanBuilder._retry_scheduled,
    ev.AnswerCompleted: SpanBuilder._answer_completed,
    ev.ToolCallRequested: SpanBuilder._tool_requested,
    ev.ToolCallStarted: SpanBuilder._tool_started,
    ev.ToolCallFinished: SpanBuilder._tool_finished,
    ev.ApprovalRequested: SpanBuilder._approval_requested,
    ev.ApprovalResolved: SpanBuilder._resolved,
    ev.QuestionAsked: SpanBuilder._question_asked,
    ev.QuestionResolved: SpanBuilder._resolved,
    ev.HookRan: SpanBuilder._hook_ran,
    ev.Compacted: SpanBuilder._compacted,
    ev.TurnCompleted: SpanBuilder._turn_ended,
    ev.TurnAborted: SpanBuilder._turn_ended,
    ev.TurnFailed: SpanBuilder._turn_ended,
    ev.AgentChanged: SpanBuilder._agent_changed,
    ev.OperationCompleted: SpanBuilder._operation_ended,
    ev.OperationFailed: SpanBuilder._operation_ended,
    ev.SessionClosed: SpanBuilder._session_closed,
}
"""Handlers by event type; other events take no time."""
