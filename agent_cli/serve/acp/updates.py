"""Convert the events of a session into `session/update` notifications of the protocol."""

from collections.abc import Iterator
from typing import Any

from agent_cli.protocol import events as ev
from agent_cli.protocol.agent_types import ENDED
from agent_cli.protocol.client import Snapshot
from agent_cli.protocol.messages import new_id
from agent_cli.protocol.sanitize import clean

from . import calls
from .content import text_block
from .host import EditorServices
from .wire import ClientAbilities

Update = dict[str, Any]
_VOIDED = "_The answer was cut off; it starts over._\n\n"
_KEPT_CHARS = 30_000
"""Maximum number of characters kept of a running call's output."""
_PLAN = {"pending": "pending", "in_progress": "in_progress", "done": "completed"}
_CALL_STATUS = {"ok": "completed"}
_ENDED_EARLY = "The turn ended early: {}."


class _Call:
    """A tool call that was announced and has not ended."""

    def __init__(self, arguments: Any = None, is_agent: bool = False) -> None:
        self.arguments = arguments
        self.is_agent = is_agent
        self.agent = ""
        """The sub-agent that it has started."""
        self.output = ""
        self.has_news = False

    def add(self, text: str) -> None:
        """Append output."""
        self.output = (self.output + text)[-_KEPT_CHARS:]
        self.has_news = True


class Updates:
    """Renders the events of a session, live or replayed."""

    def __init__(self, cwd: str, client: ClientAbilities, services: EditorServices) -> None:
        """`cwd` is the folder of the session."""
        self._cwd = cwd
        self._client = client
        self._services = services
        self._calls: dict[str, _Call] = {}
        self._announced_ids: set[str] = set()
        """Ids used to show the user calls of sub-agents."""
        self._message = new_id("msg")
        """Id of the current message; a retried answer gets a new one."""
        self._begins_anew = False

    def of(self, event: ev.AnyEvent, *, again: bool = False) -> Iterator[Update]:
        """Yield the updates for an event; `again` means that a past conversation is replayed."""
        match event:
            case ev.TextDelta():
                text, self._begins_anew = f"{_VOIDED if self._begins_anew else ''}{event.text}", False
                yield _chunk("agent_message_chunk", text, self._message)
            case ev.ReasoningDelta():
                yield _chunk("agent_thought_chunk", event.text, f"{self._message}_thought")
            case ev.StepStarted() | ev.AnswerCompleted():
                self._message = new_id("msg")
            case ev.TurnStarted(text=text) | ev.Steered(text=text) if again and text:
                yield _chunk("user_message_chunk", text, new_id("msg"))
            case ev.ToolCallRequested():
                yield self._requested(event)
            case ev.ToolCallStarted(call_id=call_id) if call_id in self._calls:
                yield {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": "in_progress"}
            case ev.ToolOutput(call_id=call_id, text=text) if call_id in self._calls:
                self._calls[call_id].add(text)
            case ev.ToolCallFinished():
                yield from self._finished(event)
            case ev.PlanUpdated(items=items):
                entries = [
                    {"content": clean(each.text), "priority": "medium", "status": _PLAN[each.status]}
                    for each in items
                ]
                yield {"sessionUpdate": "plan", "entries": entries}
            case ev.AgentChanged() | ev.AgentEvent():
                yield from self._of_agent(event)
            case ev.SettingsChanged():
                yield {"sessionUpdate": "current_mode_update", "currentModeId": event.mode}
            case ev.RetryScheduled() | ev.FellBack():
                yield from self._started_over(event)
            case _:
                yield from self._told(event, again)

    def ask(self, event: ev.ApprovalRequested, item: ev.ApprovalItem) -> Iterator[Update]:
        """Yield the announcement of a sub-agent's call before the user is asked to approve it; other calls are
        announced already."""
        if event.agent_name:
            shown = self.approval(event, item)
            self._announced_ids.add(shown["toolCallId"])
            yield {"sessionUpdate": "tool_call", **shown}

    def approval(self, event: ev.ApprovalRequested, item: ev.ApprovalItem) -> Update:
        """Return the call to be approved, with everything that a decision needs."""
        arguments = calls.arguments_of(item.arguments)
        title = calls.title_of(item)
        return {
            "toolCallId": _call_id(event.agent_name, item.call_id),
            "title": f"{event.agent_name}: {title}" if event.agent_name else title,
            "kind": calls.kind_of(item.tool),
            "status": "pending",
            "content": calls.approval_content(item, self._cwd),
            "locations": calls.locations_of(item.tool, arguments, self._cwd),
            "rawInput": arguments,
        }

    def output(self) -> Iterator[Update]:
        """Yield the output of running calls since the last call."""
        for call_id, call in self._calls.items():
            if call.has_news:
                call.has_news = False
                shown = calls.text_content if call.agent else calls.output_content
                content = shown(clean(call.output))
                yield {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "content": content}

    @property
    def has_output(self) -> bool:
        """True if there is new output."""
        return any(call.has_news for call in self._calls.values())

    def said(self, text: str) -> Update:
        """Return a message of the program as a separate message."""
        return _chunk("agent_message_chunk", clean(text), new_id("msg"))

    def _requested(self, event: ev.ToolCallRequested) -> Update:
        arguments = calls.arguments_of(event.arguments)
        self._calls[event.call_id] = _Call(arguments, event.tool == "agent")
        return {
            "sessionUpdate": "tool_call",
            "toolCallId": event.call_id,
            "title": calls.title_of(event),
            "kind": calls.kind_of(event.tool),
            "status": "pending",
            "locations": calls.locations_of(event.tool, arguments, self._cwd),
            "rawInput": arguments,
        }

    def _finished(self, event: ev.ToolCallFinished) -> Iterator[Update]:
        call = self._calls.pop(event.call_id, None)
        found: Update = {
            "sessionUpdate": "tool_call_update" if call else "tool_call",
            "toolCallId": event.call_id,
            "title": calls.title_of(event),
            "kind": calls.kind_of(event.tool),
            "status": _CALL_STATUS.get(event.status, "failed"),
            "content": calls.finished_content(event, self._cwd),
            "rawOutput": calls.raw_output(event),
        }
        if places := calls.finished_locations(event, self._cwd):
            found["locations"] = places
        yield found

    def _of_agent(self, event: ev.AgentChanged | ev.AgentEvent) -> Iterator[Update]:
        """Show the activity of a sub-agent as growing text of the call that started it."""
        call = self._call_of(event)
        match event:
            case ev.AgentEvent(event=ev.TextDelta(text=text)) if call:
                call.add(text)
            case ev.AgentEvent(event=ev.ToolCallStarted() as started) if call:
                call.add(f"\n\n- {calls.title_of(started)}\n\n")
            case ev.AgentEvent(agent_name=name, event=ev.ToolCallFinished() as finished):
                if (identifier := _call_id(name, finished.call_id)) in self._announced_ids:
                    self._announced_ids.discard(identifier)
                    status = _CALL_STATUS.get(finished.status, "failed")
                    yield {"sessionUpdate": "tool_call_update", "toolCallId": identifier, "status": status}
            case ev.AgentChanged(state=state) if call and state in ENDED:
                call.add(f"\n\n{event.agent_name}: {state}")

    def _call_of(self, event: ev.AgentChanged | ev.AgentEvent) -> _Call | None:
        """Return the running call that started a sub-agent; if there are several, the one with its task."""
        started = [call for call in self._calls.values() if call.is_agent]
        if found := next((call for call in started if call.agent == event.agent_id), None):
            return found
        task = event.task.strip() if isinstance(event, ev.AgentChanged) else None
        free = [call for call in started if not call.agent and _task_of(call.arguments) == task]
        if task is None or not free:
            return None
        free[0].agent = event.agent_id
        return free[0]

    def _started_over(self, event: ev.RetryScheduled | ev.FellBack) -> Iterator[Update]:
        self._message = new_id("msg")
        self._begins_anew = self._begins_anew or event.discarded_chars > 0
        if isinstance(event, ev.FellBack):
            yield from self._notice("warning", f"{event.model} takes over", event.error.message, is_needed=True)
        else:
            why = f"{event.error.message} Attempt {event.attempt} in {event.delay_s:.0f} s."
            yield from self._notice("warning", "The model did not answer", why)

    def _told(self, event: ev.AnyEvent, again: bool) -> Iterator[Update]:
        """Yield the updates for events other than answers and calls."""
        match event:
            case ev.StreamSilent(silent_s=silent_s) if silent_s:
                yield from self._notice("info", f"The model has sent nothing for {silent_s:.0f} s")
            case ev.Notice(level=level, text=text):
                yield from self._notice(level, text, is_needed=level == "warning")
            case ev.Attached(note=note) if note and not again:
                yield from self._notice("info", self._services.describe_event(event))
            case ev.Compacted():
                yield from self._compacted(event)
            case ev.TurnFailed(error=error) if again:
                yield self.said(error.message)
            case ev.TurnCompleted(stop_reason=reason) if reason != "end_turn" and not again:
                yield from self._notice("warning", _ENDED_EARLY.format(reason.replace("_", " ")), is_needed=True)
            case ev.Renamed() | ev.Restored() | ev.OperationCompleted() | ev.OperationFailed():
                if text := self._services.describe_event(event):
                    yield self.said(text)

    def _compacted(self, event: ev.Compacted) -> Iterator[Update]:
        if self._client.shows_compaction and event.how not in ("preview", "undone"):
            done: Update = {"compactionId": new_id("compaction"), "status": "completed"}
            summary = {"summary": [text_block(event.summary)]} if event.summary else {}
            yield {"sessionUpdate": "compaction_update", **done, **summary}
        else:
            yield from self._notice("info", self._services.describe_event(event), is_needed=True)

    def _notice(self, severity: str, title: str, more: str = "", *, is_needed: bool = False) -> Iterator[Update]:
        """Yield a notice to the user: outside the conversation, or inside it if the client supports no notices and
        the user must know."""
        title, more = clean(title), clean(more)
        if self._client.shows_notices:
            described = {"description": more} if more else {}
            yield {"sessionUpdate": "notice", "severity": severity, "title": title, **described}
        elif is_needed:
            yield self.said("\n".join(f"> {line}" for line in f"{title}\n{more}".strip().split("\n")) + "\n")


def _chunk(kind: str, text: str, message_id: str) -> Update:
    return {"sessionUpdate": kind, "content": text_block(text), "messageId": message_id}


def _call_id(agent_name: str, call_id: str) -> str:
    return f"{agent_name}/{call_id}" if agent_name else call_id


def _task_of(arguments: Any) -> str | None:
    task = arguments.get("task") if isinstance(arguments, dict) else None
    return task.strip() if isinstance(task, str) else None


def usage(now: Snapshot) -> Update | None:
    """Return the usage of the context window and the cost of the session; None if the window is unknown."""
    if now.context_window is None:
        return None
    found: Update = {"sessionUpdate": "usage_update", "used": now.context_tokens, "size": now.context_window}
    cost = now.totals.cost_usd
    return found | ({"cost": {"amount": cost, "currency": "USD"}} if cost is not None else {})
