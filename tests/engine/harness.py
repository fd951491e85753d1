"""The engine with real tools on a real folder, a scripted model, and a recording front end.

async with engine(tmp_path, say("hello")) as it:
    await it.prompt("hi")
    assert it.ended("turn_completed").text == "hello"
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from agent_cli.config.call_rule_schema import ToolRule
from agent_cli.engine.agent import Agent
from agent_cli.engine.context.prompt_parts import PromptAdditions
from agent_cli.engine.dispatch import Dispatcher
from agent_cli.engine.model_calls.limits import Bounds, Settings
from agent_cli.engine.model_calls.model_selection import Models
from agent_cli.engine.permissions.active_policy import Permissions, SpecialPaths
from agent_cli.engine.permissions.sandbox_profile import SandboxProfiles
from agent_cli.engine.services import SessionServices
from agent_cli.engine.tool_calls.approval_requests import ApprovalRequests
from agent_cli.engine.tool_calls.call_rules import as_permissions, bind
from agent_cli.engine.undo.turn_undo import TurnUndo
from agent_cli.hooks.definition import Hook
from agent_cli.hooks.engine import HookEngine, HookSession
from agent_cli.model.transport.retry import RetryPolicy
from agent_cli.model.types.base import Model
from agent_cli.policy.rules.rule import parse_rule
from agent_cli.protocol.actions import Allow, Mode, ReadPath
from agent_cli.protocol.events import TERMINAL, AnyEvent, ApprovalRequested, QuestionAsked
from agent_cli.protocol.messages import Message, UserMessage
from agent_cli.protocol.operations import ApprovalAnswer, Decision, Operation, Shutdown, UserInput
from agent_cli.protocol.records import FORMAT_VERSION, Header
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.session.event_bus import EventBus
from agent_cli.session.projection import Projection
from agent_cli.session.session import Session
from agent_cli.store.session_file import NewSessionFile, SessionFile, read_session
from agent_cli.store.state.daily_spend import SpendLog
from agent_cli.store.state.grants import GrantFile
from agent_cli.tools.kit.base import ToolContext
from agent_cli.tools.new_context import new_context
from agent_cli.tools.registry import Registry, default_registry
from agent_cli.workspace.checkpoints.git_store import Checkpoints
from agent_cli.workspace.memory import Memory
from agent_cli.workspace.paths import Workspace
from tests.model.scripted import Entry, ScriptedModel

E = TypeVar("E", bound=AnyEvent)
Answer = Callable[[ApprovalRequested], ApprovalAnswer | None]


class Engine:
    """A running engine and everything its front end has seen."""

    def __init__(
        self, agent: Agent, session: Session, model: ScriptedModel, root: Path, path: Path, context: ToolContext
    ) -> None:
        self.agent = agent
        self.context = context
        self.session = session
        self.model = model
        self.root = root
        self.path = path
        self.events: list[AnyEvent] = []
        self.answer: Answer | None = None
        self.reply: Callable[[QuestionAsked], Operation] | None = None
        self.submitted: list[str] = []
        self._arrived = asyncio.Condition()

    async def record(self) -> None:
        """The recording front end."""
        async for event in self.agent.events():
            async with self._arrived:
                self.events.append(event)
                self._arrived.notify_all()
            if isinstance(event, ApprovalRequested) and self.answer is not None:
                answer = self.answer(event)
                if answer is not None:
                    await self.agent.submit(answer)
            if isinstance(event, QuestionAsked) and self.reply is not None:
                await self.agent.submit(self.reply(event))

    async def submit(self, operation: Operation) -> str:
        submission = await self.agent.submit(operation)
        self.submitted.append(submission)
        return submission

    async def prompt(self, text: str) -> AnyEvent:
        """Submit a prompt and wait for its end."""
        return await self.until_ended(await self.submit(UserInput(text)))

    async def do(self, operation: Operation) -> AnyEvent:
        return await self.until_ended(await self.submit(operation))

    async def until_ended(self, submission_id: str) -> AnyEvent:
        return await self.until(lambda e: isinstance(e, TERMINAL) and e.submission_id == submission_id)

    async def until(self, wanted: Callable[[AnyEvent], bool], timeout_s: float = 60.0) -> AnyEvent:
        """The first event, past or to come, that is wanted."""
        async with asyncio.timeout(timeout_s), self._arrived:
            looked_at = 0
            while True:
                for event in self.events[looked_at:]:
                    if wanted(event):
                        return event
                looked_at = len(self.events)
                await self._arrived.wait()

    async def until_type(self, kind: type[E], timeout_s: float = 60.0) -> E:
        found = await self.until(lambda event: isinstance(event, kind), timeout_s)
        assert isinstance(found, kind)
        return found

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def terminals(self) -> dict[str, int]:
        """Submission id → number of terminal events."""
        counts: dict[str, int] = {}
        for event in self.events:
            if isinstance(event, TERMINAL):
                counts[event.submission_id] = counts.get(event.submission_id, 0) + 1
        return counts


def approve_all(request: ApprovalRequested) -> ApprovalAnswer:
    return ApprovalAnswer(request.request_id, tuple(Decision(item.call_id, allow=True) for item in request.items))


def refuse_all(words: str) -> Answer:
    def answer(request: ApprovalRequested) -> ApprovalAnswer:
        decisions = tuple(Decision(item.call_id, allow=False, feedback=words) for item in request.items)
        return ApprovalAnswer(request.request_id, decisions)

    return answer


def memory_in(base: Path) -> Memory:
    """The memory of a session, empty."""
    return Memory(base / "config", base / "state", base / "notes")


def header(root: Path, **changes: Any) -> Header:
    values: dict[str, Any] = dict(
        id="session_1", seq=1, version=FORMAT_VERSION, session_id="s1", cwd=str(root), model="scripted/model",
        mode="ask", created_by="test", system="You are a test.",
    )  # fmt: skip
    return Header(**{**values, **changes})


_BOUNDS = Bounds(turns=30)


def build(
    base: Path,
    model: ScriptedModel,
    *,
    mode: Mode | None = None,
    interactive: bool = True,
    rules: Sequence[str] = (),
    bounds: Bounds = _BOUNDS,
    registry: Registry | None = None,
    compact_at: float = 0.8,
    other_model: Model | None = None,
    session: Session | None = None,
    fallbacks: Mapping[str, Model] = MappingProxyType({}),
    retry: RetryPolicy | None = None,
    day: SpendLog | None = None,
    finish_plan: bool = False,
    small: str = "",
    tool_rules: Sequence[Mapping[str, Any]] = (),
    confining: SandboxProfiles | None = None,
    processes: ProcessRunner | None = None,
    tools: Mapping[str, Any] = MappingProxyType({}),
    hooks: Sequence[Hook] = (),
) -> Engine:
    root = base / "work"
    root.mkdir(exist_ok=True)
    path = base / "session.json"
    if session is None and path.exists():
        file, loaded = SessionFile.open(path)
        session = Session(loaded.records, file, saved=True, reread=lambda: read_session(path).records)
    elif session is None:
        first = [header(root, mode=mode or "ask")]
        session = Session(first, NewSessionFile(path), saved=False, reread=lambda: read_session(path).records)
    bus = EventBus()
    processes = processes or ProcessRunner()
    workspace = Workspace(root)
    parsed = tuple(parse_rule(r.partition(" ")[2], r.partition(" ")[0], "test") for r in rules)  # type: ignore[arg-type]
    checked = [(msgspec.convert(rule, ToolRule), f"test:{at}") for at, rule in enumerate(tool_rules, 1)]

    async def open_other(name: str) -> Model:
        found = fallbacks.get(name) or other_model
        if found is None:
            raise ValueError(f"no model {name}")
        return found

    def moment(earlier: Sequence[Message]) -> PromptAdditions:
        return PromptAdditions(
            "" if any(isinstance(m, UserMessage) and m.context for m in earlier) else "Date: today", {}
        )

    permissions = Permissions(
        workspace,
        (*parsed, *as_permissions(checked)),
        mode=mode or session.view.settings[1],
        paths=SpecialPaths((base / "state",)),
        confining=confining,
        untrusted=session.untrusted_sources,
        grants={"project": GrantFile(base / "state" / "project.json")},
    )
    permissions.restore_grants(session.grants())
    context = new_context(
        workspace,
        processes,
        base / "spill",
        seen=dict(session.view.known_files),
        may_show=lambda path: isinstance(permissions.authorize(ReadPath(path, path)), Allow),
        **tools,
    )
    told = HookSession("s1", str(path), root, os.environ, lambda: permissions.mode, lambda: "scripted/model")
    services = SessionServices(
        session=session,
        bus=bus,
        models=Models(model, open_other, "", tuple(fallbacks), small),
        registry=registry or default_registry(interactive=interactive),
        permissions=permissions,
        approvals=ApprovalRequests(interactive=interactive),
        undo=TurnUndo(
            session,
            lambda: Checkpoints(root, base / "cp", "s1", processes.run, timeout_s=90.0),
            bus.emit,
            context.memory or memory_in(base),
        ),
        tool_base=context,
        settings=Settings(bounds, compact_at, "test", str(path), resumed=False, finish_plan=finish_plan),
        prompt_additions=moment,
        retry=retry or RetryPolicy(attempts=3, patient_attempts=3, base_s=0.001, horizon_s=5.0),
        day=day,
        rules=bind(checked),
        hooks=HookEngine(hooks, told, processes) if hooks else None,
    )
    return Engine(Agent(Dispatcher(services)), session, model, root, path, services.tools)


def same_facts(session: Session) -> None:
    """What is kept up to date record by record is what all the records together say."""
    view, anew = session.view, Projection(session.whole(), session.root)
    assert view.visible() == anew.visible()
    for fact in ("open_calls", "plan", "known_files", "prompts", "waiting", "reductions", "settings", "name"):
        assert getattr(view, fact) == getattr(anew, fact), fact
    assert list(view.open_calls) == list(anew.open_calls) and list(view.waiting) == list(anew.waiting)


@asynccontextmanager
async def running(it: Engine) -> AsyncIterator[None]:
    """Run an engine; on leaving it is shut down, and every submission must have had exactly one end."""
    recorder = asyncio.create_task(it.record())
    runner = asyncio.create_task(it.agent.run())
    try:
        yield
    finally:
        await it.agent.submit(Shutdown())
        async with asyncio.timeout(60):
            await runner
            await recorder
    ends = it.terminals()
    assert {submission: ends.get(submission) for submission in it.submitted} == dict.fromkeys(it.submitted, 1)


@asynccontextmanager
async def engine(
    base: Path, *script: Entry, model: ScriptedModel | None = None, **options: Any
) -> AsyncIterator[Engine]:
    """A running engine, and on leaving what must hold of it."""
    before = asyncio.all_tasks()
    it = build(base, model or ScriptedModel(*script), **options)
    async with running(it):
        yield it
    assert not it.model.violations, "\n".join(it.model.violations)
    assert [event.seq for event in it.events] == list(range(1, len(it.events) + 1))
    assert it.model.active == 0, "a stream was left open"
    same_facts(it.session)
    assert asyncio.all_tasks() <= before, "a task was left pending"
