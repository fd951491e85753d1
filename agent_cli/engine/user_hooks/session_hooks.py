"""Run user hooks on prompts and the end of turns, and notify them of session events."""

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from os.path import isdir
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import replace

from agent_cli.protocol.actions import Action, CallExternal, Fetch, ReadPath
from agent_cli.protocol.events import AnyEvent, ApprovalRequested, HookRan, QuestionAsked
from agent_cli.protocol.messages import new_id
from agent_cli.protocol.records import HookCompleted
from agent_cli.session.event_bus import TurnScope
from agent_cli.session.session import Session
from agent_cli.store.session_file import StoreError
from agent_cli.tools.kit.base import ToolContext

if TYPE_CHECKING:
    import asyncio

    from agent_cli.hooks.call_names import ToolCallFacts
    from agent_cli.hooks.definition import Event
    from agent_cli.hooks.engine import HookEngine, HookResult

Notification = Literal["permission_prompt", "idle_prompt", "agent_needs_input", "elicitation_dialog"]
"""What the agent waits for: an approval, a prompt, an answer to the model, or an answer to an MCP server."""
MOST_STOPS_REFUSED = 5
"""Number of times in a row that hooks may keep a turn from ending."""


class PromptRuling(msgspec.Struct, frozen=True):
    """The decision of hooks on a prompt."""

    refusal: str = ""
    """Why it is not sent; empty if it is."""
    context: str = ""
    """Text for the model to send with the prompt."""


class SessionHooks:
    """The hooks of one session, except those on calls."""

    def __init__(self, engine: "HookEngine", session: Session, tools: ToolContext, *, resumed: bool) -> None:
        """A sub-agent's session begins with `SubagentStart` and ends with `SubagentStop`."""
        self._is_subagent = bool(session.header.parent_id)
        self._engine = engine
        self._session = session
        self._tools = tools
        self._source = "resume" if resumed else "startup"
        self._has_started = False
        self._stops_refused = 0
        self._at_start: tuple[str, ...] = ()
        self._after_compaction: tuple[str, ...] = ()
        """Output of the `SessionStart` hooks, for the next prompt that is sent."""

    async def on_prompt(self, text: str, scope: TurnScope) -> PromptRuling:
        """Run the hooks on a prompt before it is saved. Before the first prompt, the start hooks run."""
        begins, self._stops_refused = not self._has_started, 0
        if begins and (refusal := await self._start(text, scope)):
            return PromptRuling(refusal)
        said: tuple[str, ...] = ()
        if not (begins and self._is_subagent):  # its first prompt was written by the model
            result = await self._at("UserPromptSubmit", {"prompt": text}, scope)
            if refusal := _refusal(result):
                return PromptRuling(refusal)
            said = result.contexts
        contexts = (*self._at_start, *self._after_compaction, *said)
        self._at_start = self._after_compaction = ()
        return PromptRuling(context="\n".join(contexts))

    async def on_words(self, text: str, scope: TurnScope) -> str:
        """Run the prompt hooks on the user's words that accompany something else, and return what the model may
        see."""
        ruling = await self.on_prompt(text, scope)
        if ruling.refusal:
            scope.notice(f"The prompt was refused by a hook: {ruling.refusal}")
            return ""
        return f"{text}\n[A user hook says: {ruling.context}]" if ruling.context else text

    async def on_mention(self, scope: TurnScope, action: Action) -> str:
        """Run the tool call hooks on a mention as if a call read it. Return why it is refused; empty if it is
        not."""
        reading = _reading(action, str(self._session.root))
        result = await self._engine.before_call(reading)
        announce(result, self._session, scope)
        if result.decision == "ask":
            return f"{result.reason or 'it requires approval'}; a call of the model asks"
        if result.decision == "deny" or result.stop:
            return result.why
        new = result.new_arguments or reading.arguments
        if any(new.get(name) != value for name, value in reading.arguments.items()):
            return f"the hook {result.rewriter} changes what is read; a call of the model does that"
        return ""

    async def on_stop(self, answer: str, scope: TurnScope) -> str:
        """Run the hooks on the end of a turn. Return why the model must continue; empty if the turn ends."""
        event: Event = "SubagentStop" if self._is_subagent else "Stop"
        facts = {"stop_hook_active": self._stops_refused > 0, "last_assistant_message": answer}
        result = await self._at(event, facts | self._about_subagent(), scope, self._session.header.agent_type)
        if result.stop or result.decision != "deny":
            return ""
        if self._stops_refused == MOST_STOPS_REFUSED:
            scope.notice(f"The turn ends although a hook refuses it, after {MOST_STOPS_REFUSED} times in a row.")
            return ""
        self._stops_refused += 1
        return result.reason or "A user hook says that you are not done."

    async def on_failure(self, error: str, scope: TurnScope) -> None:
        """Notify hooks that a turn failed."""
        await self._at("StopFailure", {"error": error}, scope)

    async def before_compaction(self, trigger: Literal["manual", "auto"], scope: TurnScope) -> str:
        """Run the hooks on a compaction. Return why it is refused; empty if it is not."""
        facts = {"trigger": trigger, "custom_instructions": ""}
        return _refusal(await self._at("PreCompact", facts, scope, trigger))

    async def after_compaction(self, trigger: Literal["manual", "auto"], summary: str, scope: TurnScope) -> None:
        """Notify hooks of a compaction."""
        await self._at("PostCompact", {"trigger": trigger, "compact_summary": summary}, scope, trigger)
        if not self._is_subagent:
            result = await self._at("SessionStart", {"source": "compact"}, scope, "compact")
            self._after_compaction = result.contexts

    def watching(self, emit: Callable[[AnyEvent], None]) -> Callable[[AnyEvent], None]:
        """Return a wrapper of `emit` that also notifies hooks when the agent waits for the user."""
        if not self._engine.has("Notification"):
            return emit

        def watched(event: AnyEvent) -> None:
            emit(event)
            scope = TurnScope(emit, event.submission_id)
            match event:
                case ApprovalRequested(items=items):
                    calls = "; ".join(item.title for item in items)
                    self.notify("permission_prompt", f"A call waits for your answer: {calls}", scope)
                case QuestionAsked(question=question, server=server):
                    self.notify("elicitation_dialog" if server else "agent_needs_input", question, scope)

        return watched

    def notify(self, kind: Notification, message: str, scope: TurnScope) -> None:
        """Notify hooks that the agent waits for the user, without waiting for the hooks."""
        if self._engine.has("Notification"):
            facts = {"message": message, "notification_type": kind}
            self._engine.beside(self._at("Notification", facts, scope, kind))

    async def on_end(self, reason: str, scope: TurnScope) -> None:
        """Notify hooks that the session ends."""
        if self._has_started and not self._is_subagent:
            await self._at("SessionEnd", {"reason": reason}, scope, reason)

    def _about_subagent(self) -> dict[str, str]:
        header = self._session.header
        if not self._is_subagent:
            return {}
        return {"agent_id": header.session_id, "agent_type": header.agent_type}

    async def _start(self, prompt: str, scope: TurnScope) -> str:
        """Run the hooks on the start. Return why a sub-agent may not start; empty if it may."""
        self._has_started = True
        if self._is_subagent:
            kind = self._session.header.agent_type
            result = await self._at("SubagentStart", self._about_subagent() | {"task": prompt}, scope, kind)
            self._at_start = result.contexts
            return _refusal(result)
        if not self._engine.has("SessionStart"):
            return ""
        import tempfile

        from agent_cli.tools.shell.env_file import take_variables

        with tempfile.TemporaryDirectory(prefix="agent-hooks-", dir=self._tools.processes.folder()) as folder:
            file = Path(folder) / "variables"
            file.touch()
            env = {"CLAUDE_ENV_FILE": str(file)}
            result = await self._at("SessionStart", {"source": self._source}, scope, self._source, env)
            wrong = await take_variables(file, self._tools.shell, self._tools.processes)
        if wrong:
            scope.notice(f"What a hook wrote to CLAUDE_ENV_FILE {wrong}.")
        self._at_start = result.contexts
        return ""

    async def _at(
        self,
        event: "Event",
        facts: Mapping[str, Any],
        scope: TurnScope,
        name: str = "",
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> "HookResult":
        result = await self._engine.at(event, facts, (name,) if name else (), env)
        announce(result, self._session, scope)
        return result


def _reading(action: Action, root: str) -> "ToolCallFacts":
    """Return the call that would read something."""
    from agent_cli.hooks.call_names import ToolCallFacts

    facts = ToolCallFacts(new_id("mention"), "read_file", {}, root, actions=(action,))
    match action:
        case CallExternal(server=server, tool=uri):
            return replace(facts, tool="read_resource", arguments={"uri": uri}, server=server, server_tool=uri)
        case Fetch(url=url):
            return replace(facts, tool="web_fetch", arguments={"url": url})
        case ReadPath(path=path):
            return replace(facts, tool="list_dir" if isdir(path) else "read_file", arguments={"path": path})
        case _:
            return facts


def _refusal(result: "HookResult") -> str:
    """Return why something other than a call is refused, and how to avoid it; empty if it is not. Nobody is asked
    about such things, so a decision to ask also refuses."""
    if not result.stop and result.decision not in ("deny", "ask"):
        return ""
    if any(run.failure for run in result.runs):
        return result.why  # the failure message already names the hook and the way out
    return f"{result.why} (`/hooks off {result.deciders}` or --no-hooks continues without it)"


def announce(result: "HookResult", session: Session, scope: TurnScope) -> None:
    """Record the runs of hooks and show the user their messages. Hooks still running are handled when they end."""
    for run in result.runs:
        values: dict[str, Any] = {
            "hook": run.hook,
            "event": run.event,
            "duration_s": run.duration_s,
            "decision": run.decision or "",
            "failure": run.failure,
            "rewrite": run.rewrite,
        }
        session.append(
            HookCompleted(
                id=new_id("hook"), turn_id=scope.turn_id, source=run.source, exit_code=run.exit_code, **values
            )
        )
        scope.emit(HookRan(**values))
    for text in result.messages:
        scope.notice(text)
    for task in result.later:
        task.add_done_callback(partial(_announce_later, session=session, scope=scope))


def _announce_later(task: "asyncio.Task[HookResult]", session: Session, scope: TurnScope) -> None:
    if not task.cancelled() and task.exception() is None:
        with contextlib.suppress(StoreError):  # the turn itself reports problems with the session file
            announce(task.result(), session, scope)
