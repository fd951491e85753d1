"""One sub-agent: a separate session with the same engine. It is in exactly one state at a time, and its end is
saved before it is reported. Its questions and its checkpoints go to the session that started it, too."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_cli.protocol import events as ev
from agent_cli.protocol.agent_types import ENDED, AgentState, AgentType
from agent_cli.protocol.client import AgentLine
from agent_cli.protocol.events import AnyEvent, ApprovalItem, ApprovalRequested, QuestionAsked
from agent_cli.protocol.messages import FileChange, new_id
from agent_cli.protocol.operations import AttachedText, Decision, Shutdown, Steer, UserInput
from agent_cli.protocol.records import AgentStateChanged
from agent_cli.protocol.stop_reason import StopReason
from agent_cli.session.event_bus import TurnScope
from agent_cli.session.session import Session
from agent_cli.store.child_sessions import ChildSession
from agent_cli.store.session_file import StoreError
from agent_cli.workspace.checkpoints.types import Snapshots
from agent_cli.workspace.memory import Memory

from ..agent import Agent
from ..dispatch import Dispatcher
from ..services import SessionServices
from ..tool_calls.approval_requests import ApprovalRequests
from ..undo.turn_undo import TurnUndo

if TYPE_CHECKING:
    from agent_cli.workspace.worktrees.worktree import Worktree

    from ..undo.effect_times import JobsUntil
    from .subagents import Subagents


_STOP_S = 1.5
"""Seconds that a stopped engine gets to end by itself."""
_CLOSE_S = 8.0
_OVER_BUDGET: frozenset[StopReason] = frozenset({"cost_limit", "turn_limit", "time_limit"})
_LINE_CHARS = 200
_OF_THE_ENGINE = (ev.SessionStarted, ev.SessionClosed, ev.OperationCompleted, ev.OperationFailed)
"""Events that do not describe its work."""


class ChildPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a sub-agent."""

    id: str
    """Id of its session."""
    name: str
    type: AgentType
    model: str = ""
    """Name of the model; empty for that of the type or else of the parent."""
    call_id: str = ""
    depth: int = 1
    background: bool = False
    is_resumed: bool = False


BuildChild = Callable[[ChildPlan, "Child"], Awaitable[SessionServices]]


class ChildResult(msgspec.Struct, frozen=True):
    """Result of one task of a sub-agent."""

    state: AgentState
    text: str
    """The answer, or why there is none."""
    steps: int
    cost_usd: float | None
    changed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    """Its calls that were denied, with the rules, each once."""
    untrusted: str = ""
    """Source of the untrusted text in its session."""


class Child:
    """A sub-agent through all its tasks."""

    def __init__(self, plan: ChildPlan, among: "Subagents", tell: Callable[["Child", ev.AnyEvent], None]) -> None:
        """`among` are the sub-agents of the session that starts it. `tell` is called with each event of its
        session and each change of its state."""
        self.plan = plan
        self.among = among
        self.task = ""
        self.state: AgentState = "queued"
        self.steps = 0
        self.line = ""
        self.result: ChildResult | None = None
        self.is_reported = False
        """True if the parent has received the result."""
        self.session_path = ""
        self.changes_before: tuple[FileChange, ...] = ()
        """What its tools are known to have changed in an earlier run of the program."""
        self.brought: tuple[AttachedText, ...] = ()
        """Texts sent along with its task, such as skills."""
        self.worktree: Worktree | None = None
        """Its private worktree; None if it works in its parent's workspace."""
        self._tell = tell
        self._began = time.monotonic()
        self._over_at = 0.0
        """Time when its last task ended; 0 while it works."""
        self._cost_usd: float | None = None
        self._services: SessionServices | None = None
        self._agent: Agent | None = None
        self._changed: dict[str, None] = {}
        self._denied: dict[str, None] = {}
        self._ended: asyncio.Future[tuple[AgentState, str]] | None = None
        self._stopping: StopReason | None = None
        self._is_in_turn = False
        self._guidance: list[str] = []
        """Guidance received before its turn began."""
        self.has_place = False
        """True if it occupies one of the slots for concurrently running sub-agents."""

    def adopt(self, saved: ChildSession, root: Path) -> None:
        """Restore the state in which it ended in an earlier run of the program. Files that it has
        changed in `root` are its own unless somebody else has changed them since."""
        self.task, self.state = saved.task, saved.state
        self.session_path = str(saved.path)
        self.line = _first_line(saved.text)
        if saved.cwd == str(root) and saved.changes:
            from ..context.changed_files import changed_by_others

            others = changed_by_others(root, (each.path for each in saved.changes), saved.seen)
            self.changes_before = tuple(each for each in saved.changes if each.path not in others)
        changed, untrusted = tuple(each.path for each in saved.changes), _one_source(saved.untrusted)
        self.result = ChildResult(saved.state, saved.text, 0, None, changed, (), untrusted)

    @property
    def is_over(self) -> bool:
        """True if its task has ended."""
        return self.state in ENDED

    @property
    def cost_usd(self) -> float | None:
        """Cost of its model calls; None while unknown."""
        return self._services.session.totals.cost_usd if self._services else self._cost_usd

    @property
    def untrusted(self) -> str:
        """Source of the untrusted text in its session; empty if there is none."""
        if self._services is None:
            return self.result.untrusted if self.result else ""
        return _one_source(self._services.session.untrusted_sources())

    @property
    def workplace(self) -> "Worktree | None":
        """The worktree of the nearest sub-agent above that has one, otherwise its own."""
        above = self.among.owner
        inherited = above.workplace if above is not None else None
        return inherited or self.worktree

    def shown(self) -> AgentLine:
        """Return its line for a list."""
        plan = self.plan
        return AgentLine(
            id=plan.id,
            name=plan.name,
            type=plan.type.name,
            state=self.state,
            task=self.task,
            background=plan.background,
            steps=self.steps,
            cost_usd=self.cost_usd,
            runtime_s=round((self._over_at or time.monotonic()) - self._began, 1),
            line=self.line,
            session_path=self.session_path,
            worktree=self.worktree.path if self.worktree is not None else "",
        )

    def prepare(self, *, background: bool) -> None:
        """Prepare it for another task."""
        self.plan = msgspec.structs.replace(self.plan, is_resumed=True, background=background)
        self.is_reported = False
        self._stopping = None

    async def run(self, task: str, build: BuildChild) -> ChildResult:
        """Run a task to its end. The result always has exactly one end state. A cancellation stops the task and is
        raised after its end is saved."""
        self.task, self.result, self._is_in_turn = task, None, False
        self._denied.clear()
        self._ended = asyncio.get_running_loop().create_future()
        state: AgentState = "stopped"
        text = "it was stopped before it started"
        engine: asyncio.Task[None] | None = None
        try:
            if self._stopping is None:
                self._change("running")
                services = self._services = await build(self.plan, self)
                self.session_path = services.settings.session_path
                self._record_task()
                self._agent = Agent(Dispatcher(services))
                engine = asyncio.create_task(self._serve(self._agent))
                await self._agent.submit(UserInput(task, brought=self.brought))
                state, text = await self._ended
        except asyncio.CancelledError:
            state, text = await self._after_stop("it was interrupted")
            raise
        except Exception as error:
            is_ours = type(error).__module__.startswith("agent_cli.") and str(error)
            state, text = "failed", str(error) if is_ours else f"{type(error).__name__}: {error}"
        finally:
            self._settle(state, text)
            if engine is not None:
                await asyncio.shield(asyncio.ensure_future(self._close(engine)))
            self._change(state, text)
        assert self.result is not None
        return self.result

    def abandoned(self) -> ChildResult:
        """Return the result of its task. A task that had not begun counts as stopped."""
        if self.result is None:
            self._settle("stopped", "it was stopped before it started")
            self._change("stopped", "stopped before it started")
        assert self.result is not None
        return self.result

    def stop(self, reason: StopReason = "interrupted") -> None:
        """Stop the task; `run` returns its end."""
        self._stopping = reason
        if self._agent is not None:
            self._agent.stop(reason)
        else:
            self._end("stopped", "it was stopped")

    def _record_task(self) -> None:
        """Record that it works on its task. What it is told may be derived from untrusted text that its parent has
        read, and then counts as such."""
        given = self.among.services
        assert self._services is not None and given is not None
        self._services.session.append(
            AgentStateChanged(
                id=new_id("agent"), state="running", task=self.task, background=self.plan.background,
                untrusted=given.session.untrusted_sources(),
            )
        )  # fmt: skip

    async def steer(self, text: str) -> None:
        """Send it guidance, which it reads at its next step, or at its first if it has not begun."""
        if self._agent is not None and self._is_in_turn:
            self._record_task()
            await self._agent.submit(Steer(text))
        else:
            self._guidance.append(text)

    @property
    def is_ending(self) -> bool:
        """True if its turn has ended and the session is being closed."""
        return not self.is_over and self._ended is not None and self._ended.done()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While inside, it waits for the user."""
        if not self.is_over:
            self._change("waiting")
        try:
            yield
        finally:
            if not self.is_over:
                self._change("running")

    async def _after_stop(self, why: str) -> tuple[AgentState, str]:
        """Stop the engine and return how the task ended, waiting no longer than `_STOP_S`."""
        self.stop()
        assert self._ended is not None
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(_STOP_S):
                return await asyncio.shield(self._ended)
        return "stopped", why

    async def _serve(self, agent: Agent) -> None:
        """Run the engine and forward its events."""
        running = asyncio.create_task(agent.run())
        try:
            async for event in agent.events():
                self._note(event)
                if isinstance(event, ev.TurnStarted):
                    self._is_in_turn = True
                    while self._guidance:
                        await self.steer(self._guidance.pop(0))
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            self._end("failed", "its session has ended")

    async def _close(self, engine: "asyncio.Task[None]") -> None:
        assert self._agent is not None and self._services is not None
        await self._agent.submit(Shutdown())
        await asyncio.wait({engine}, timeout=_CLOSE_S)
        engine.cancel()
        await asyncio.gather(engine, return_exceptions=True)
        self._services.budget.close()
        self._cost_usd = self._services.session.totals.cost_usd
        self._agent = self._services = None

    def _note(self, event: ev.AnyEvent) -> None:
        """Update the state from an event of its session, and forward the event."""
        if isinstance(event, _OF_THE_ENGINE):
            return
        before = self.steps, self.line
        match event:
            case ev.StepStarted() if event.kind == "main":
                self.steps += 1
            case ev.ToolCallRequested():
                self.line = f"{event.label or event.tool} {event.title}"
            case ev.AnswerCompleted() if event.text.strip():
                self.line = _first_line(event.text)
            case ev.ToolCallFinished():
                self._changed.update(dict.fromkeys(change.path for change in event.changes))
                if event.status == "denied":
                    rule = f" ({event.rule})" if event.rule else ""
                    self._denied[_first_line(f"{event.tool} {event.title}") + rule] = None
            case ev.TurnCompleted():
                self._changed.update(dict.fromkeys(change.path for change in event.changes))
                state: AgentState = "done" if event.stop_reason == "end_turn" else "failed"
                if event.stop_reason in _OVER_BUDGET:
                    state = "over_budget"
                self._end(state, event.text or f"it ended without an answer ({event.stop_reason})")
            case ev.TurnAborted():
                self._end("stopped", event.text or "it was interrupted")
            case ev.TurnFailed():
                self._end("failed", event.error.message)
        self._tell(self, ev.AgentEvent(agent_id=self.plan.id, agent_name=self.plan.name, event=event))
        if (self.steps, self.line) != before:
            self._change(self.state)

    def _end(self, state: AgentState, text: str) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result((state, text))

    def _settle(self, state: AgentState, text: str) -> None:
        """Save how the task ended, before anybody is told."""
        services, untrusted = self._services, self.untrusted
        if services is not None:
            with contextlib.suppress(StoreError):  # even if it cannot be saved, it is reported
                services.session.append(AgentStateChanged(id=new_id("agent"), state=state, text=text))
        changed, denied = tuple(self._changed), tuple(self._denied)
        self.result = ChildResult(state, text, self.steps, self.cost_usd, changed, denied, untrusted)

    def _change(self, state: AgentState, line: str = "") -> None:
        self.state = state
        self._over_at = time.monotonic() if state in ENDED else 0.0
        if line:
            self.line = _first_line(line)
        plan, owner = self.plan, self.among.owner
        self._tell(
            self,
            ev.AgentChanged(
                agent_id=plan.id,
                agent_name=plan.name,
                agent_type=plan.type.name,
                state=state,
                task=self.task,
                background=plan.background,
                steps=self.steps,
                cost_usd=self.cost_usd,
                line=self.line,
                call_id=plan.call_id,
                parent_id=owner.plan.id if owner is not None else "",
            ),
        )


def _one_source(sources: Sequence[str]) -> str:
    """Return one source for several, which is none of those that rules may allow together."""
    return f"a sub-agent that has read {sources[0]} and others" if len(sources) > 1 else "".join(sources)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:_LINE_CHARS]


class ChildApprovals(ApprovalRequests):
    """Forwards requests to the parent's queue."""

    def __init__(self, above: ApprovalRequests, child: Child, tell: Callable[[Child, AnyEvent], None]) -> None:
        super().__init__(interactive=above.interactive)
        self._above = above
        self._child = child
        self._tell = tell

    async def ask(self, items: tuple[ApprovalItem, ...], scope: TurnScope) -> dict[str, Decision]:
        with self._child.waiting():
            return await self._above.ask(items, self._named())

    async def question(self, text: str, options: tuple[str, ...], scope: TurnScope, *, server: str = "") -> str:
        with self._child.waiting():
            return await self._above.question(text, options, self._named(), server=server)

    def _named(self) -> TurnScope:
        """Return a scope that adds the sub-agent's name and task to its questions."""

        def tell(event: AnyEvent) -> None:
            if isinstance(event, ApprovalRequested | QuestionAsked) and not event.agent_name:
                name, task = self._child.plan.name, self._child.task
                event = msgspec.structs.replace(event, agent_name=name, agent_task=task)
            self._tell(self._child, event)

        return TurnScope(tell)


class ChildUndo(TurnUndo):
    """The checkpoints of one sub-agent's session."""

    def __init__(
        self,
        session: Session,
        snapshots: Callable[[], Snapshots],
        emit: Callable[[AnyEvent], None],
        parent: SessionServices,
        child: Child,
        memory: Memory,
    ) -> None:
        super().__init__(session, snapshots, emit, memory)
        self._parent = parent
        self._child = child

    @contextmanager
    def effect(self, jobs_until: "JobsUntil | None" = None) -> Iterator[None]:
        """Return a context for an effect, which is the parent's too."""
        with self._parent.undo.effect(jobs_until), super().effect(jobs_until):
            yield

    def prepare(self, disk: str) -> None:
        """Start saving for the parent, from whose save its own starts: several must not each save everything."""
        if self._child.workplace is None:
            self._parent.undo.prepare(disk)
        else:
            super().prepare(disk)

    async def before_effect(self, scope: TurnScope, paths: tuple[str, ...]) -> None:
        """Ensure that its turn can be undone, and its changes with a turn of its parent."""
        agents = self._parent.agents
        is_apart = self._child.workplace is not None  # its changes there are merged, and undone with the merge
        if agents is not None and not is_apart:
            await self._parent.undo.before_effect(agents.undo_scope, paths)
        await super().before_effect(scope, paths)
