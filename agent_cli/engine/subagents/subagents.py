"""All sub-agents of a session: their limits, names and results."""

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import assert_never

import msgspec

from agent_cli.protocol import events as ev
from agent_cli.protocol.agent_types import AgentType
from agent_cli.protocol.client import AgentLine
from agent_cli.protocol.messages import new_id
from agent_cli.protocol.operations import ControlAgent
from agent_cli.session.event_bus import TurnScope
from agent_cli.session.undo_state import BETWEEN
from agent_cli.store.child_sessions import child_sessions
from agent_cli.tools.kit.base import ToolError

from ..context.mentions import Attachments
from ..services import SessionServices
from .child import BuildChild, Child, ChildPlan, ChildResult
from .results import read_at, report, undone_calls

_READERS = ("read_file", "grep", "glob", "list_dir", "repo_map", "shell", "web_fetch", "web_search")

GENERAL = AgentType(
    name="general",
    description="A part of the task that can be done on its own, with all tools.",
    instructions="Do what the task says, and nothing else. Your last message is what the agent that started you"
    " reads: say what you did, what you found, and what is open.",
)
EXPLORE = AgentType(
    name="explore",
    description="Research something in the workspace without filling your own context. It changes nothing.",
    instructions="You look for something in the workspace and change nothing. Search widely, read only what"
    " matters, and end with a short answer that names files and lines.",
    tools=_READERS,
    mode="plan",
)
REVIEW = AgentType(
    name="review",
    description="Look at changes or files with fresh eyes. It changes nothing.",
    instructions="You review and change nothing. Look at what the task names, check each doubt against the code,"
    " and end with the findings that hold, the most serious first, each with file and line and how to see it.",
    tools=_READERS,
    mode="plan",
)
BUILT_IN = (GENERAL, EXPLORE, REVIEW)


_STOP_S = 3.0


class SubagentLimits(msgspec.Struct, frozen=True):
    """Limits on the number of sub-agents."""

    depth: int = 1
    """Nesting depth of sub-agents; 1: only the session itself may start any."""
    running: int = 4
    """Maximum that run at the same time; others wait in a queue."""
    per_prompt: int = 12


class Subagents:
    """The sub-agents of one session. Nested sub-agents share its limits."""

    def __init__(
        self,
        limits: SubagentLimits,
        types: Sequence[AgentType],
        build: BuildChild,
        owner: Child | None = None,
    ) -> None:
        """`build` creates a sub-agent's engine; `owner` is the sub-agent whose session this is, if any."""
        above = owner.among if owner is not None else None
        self.limits = limits
        self.types = {each.name: each for each in (*BUILT_IN, *types)}
        self._build = build
        self.owner = owner
        self._waiting = 0
        """Number of its calls that wait for sub-agents."""
        self._above = above
        self._free: asyncio.Semaphore = above._free if above is not None else asyncio.Semaphore(limits.running)
        self._started: list[str] = above._started if above is not None else []
        """Names of the sub-agents started for this prompt."""
        self._children: dict[str, Child] = {}
        self._tasks: dict[str, asyncio.Task[ChildResult]] = {}
        self.scope = TurnScope(lambda event: None)
        """The current or most recent turn of the session."""
        self.services: SessionServices | None = None
        self._between: TurnScope | None = None
        """The scope of changes since the last turn ended; None if there are none."""
        self._saving = asyncio.Lock()

    @property
    def undo_scope(self) -> TurnScope:
        """The turn with which changes of sub-agents are undone: the current one. Changes between turns have an id
        of their own, and are undone with the turn before them."""
        if self.scope.turn_id:
            return self.scope
        self._between = self._between or TurnScope(self.scope.emit, "", new_id(BETWEEN))
        return self._between

    async def end_between(self) -> None:
        """Save the state after the changes between turns, if any; wait for a save that is in progress."""
        async with self._saving:
            between, self._between = self._between, None
            if between is not None and self.services is not None:
                await self.services.undo.after_turn(between.turn_id)

    async def take_over(self) -> None:
        """Assign what sub-agents change from now on to the turn that has begun, even if they were started before
        it."""
        await self.end_between()
        if self.services is not None and any(
            not each.is_over and each.workplace is None for each in self._children.values()
        ):
            await self.services.undo.before_effect(self.scope, ())

    async def forget_calls(self, call_ids: Collection[str]) -> tuple[str, ...]:
        """Stop the running sub-agents that undone calls started, and return their names. The results of ended ones
        are no longer reported."""
        started = [each for each in self._children.values() if each.plan.call_id in call_ids]
        running = [each for each in started if not each.is_over]
        await self._stop(running)
        for each in started:
            each.is_reported = True
        return tuple(each.plan.name for each in running)

    @property
    def depth(self) -> int:
        """Nesting depth of this session; 0 for the one that the user talks to."""
        return 0 if self._above is None else self._above.depth + 1

    def begin(self, services: SessionServices) -> None:
        """Attach the session of these sub-agents, and restore sub-agents of its earlier runs."""
        self.services = services
        if services.settings.resumed and services.settings.session_path:
            self._adopt(services, Path(services.settings.session_path))

    def _adopt(self, services: SessionServices, path: Path) -> None:
        read, undone = read_at(services.session.records), undone_calls(services.session.records)
        for saved in child_sessions(path):
            kind = self.types.get(saved.type) or AgentType(name=saved.type, description="")
            plan = ChildPlan(
                id=saved.id,
                name=saved.name,
                type=kind,
                call_id=saved.call_id,
                depth=self.depth + 1,
                background=saved.background,
                is_resumed=True,
            )
            child = self._children[saved.id] = Child(plan, self, self.tell)
            child.adopt(saved, services.session.root)
            if saved.cwd != services.session.header.cwd:
                from .isolation import worktree_of

                child.worktree = worktree_of(saved.cwd)
            was_read = read.get(saved.id, 0.0) >= saved.time
            child.is_reported = not saved.background or was_read or saved.call_id in undone

    def below(self, child: Child) -> "Subagents":
        """Return the collection for the sub-agents of one of these sub-agents."""
        return Subagents(self.limits, tuple(self.types.values()), self._build, owner=child)

    def begin_turn(self, scope: TurnScope) -> None:
        """Begin a turn. A prompt of the user resets the allowance."""
        self.scope = scope
        if self._above is None:
            self._started.clear()

    def end_turn(self) -> None:
        """End the turn; background sub-agents continue."""
        self.scope = TurnScope(self.scope.emit)

    def lines(self) -> tuple[AgentLine, ...]:
        """Return a line for each sub-agent, oldest first."""
        return tuple(child.shown() for child in self._children.values())

    def named(self, name: str) -> Child:
        """Return the sub-agent with this id, name or prefix of an id.

        Raises:
            ToolError: none or several match.
        """
        found = [each for each in self._children.values() if name in (each.plan.id, each.plan.name)]
        found = found or [each for each in self._children.values() if name and each.plan.id.startswith(name)]
        if len(found) == 1:
            return found[0]
        known = ", ".join(f"{each.plan.name} ({each.plan.id})" for each in self._children.values()) or "none"
        said = f"There is no sub-agent {name!r}." if name else "Which one? Give its id or name."
        raise ToolError(f"{said} The sub-agents are: {known}.")

    def type_named(self, name: str) -> AgentType:
        """Return a type by name. Claude Code's `general-purpose` and `Explore` are built-in types, unless others
        have these names.

        Raises:
            ToolError: there is no such type.
        """
        name = name or GENERAL.name
        usual = GENERAL.name if name == "general-purpose" else name.lower()
        if (found := self.types.get(name) or self.types.get(usual)) is not None:
            return found
        raise ToolError(f"There is no type of agent named {name!r}. The types are: {', '.join(self.types)}.")

    def start(
        self,
        task: str,
        kind: AgentType,
        *,
        call_id: str,
        background: bool,
        model: str = "",
    ) -> Child:
        """Start a sub-agent.

        Raises:
            ToolError: a limit forbids it; the message names it.
        """
        if len(self._started) >= self.limits.per_prompt:
            raise ToolError(
                f"{self.limits.per_prompt} sub-agents were started for this prompt, which is the limit"
                " (agents.per_prompt). Do the rest yourself, or continue with one of them through `resume`."
            )
        number = 1 + sum(each.plan.type.name == kind.name for each in self._children.values())
        name = f"{kind.name}-{number}"
        self._started.append(name)
        plan = ChildPlan(
            id=os.urandom(4).hex(),
            name=name,
            type=kind,
            model=model,
            call_id=call_id,
            depth=self.depth + 1,
            background=background or kind.background,
        )
        child = self._children[plan.id] = Child(plan, self, self.tell)
        self._go(child, task)
        return child

    def go_on(self, child: Child, task: str, *, background: bool) -> None:
        """Give a sub-agent that has ended another task, in its existing session. Nobody waits for one in the
        background.

        Raises:
            ToolError: it is still working, or its type no longer exists.
        """
        if not child.is_over:
            raise ToolError(
                f"{child.plan.name} is still running; `agents` with the action `send` gives it guidance."
            )
        self.type_named(child.plan.type.name)  # without its type, its rights are unknown
        child.prepare(background=background)
        self._go(child, task)

    async def finished(self, child: Child) -> ChildResult:
        """Wait for the end of its task; a cancellation stops it."""
        try:
            async with self._place_free():
                result = await asyncio.shield(self._tasks[child.plan.id])
            child.is_reported = True
            return result
        except asyncio.CancelledError:
            await self._stop([child])
            child.is_reported = True
            raise

    @asynccontextmanager
    async def _place_free(self) -> AsyncIterator[None]:
        """Free the owner's slot for others while all its work is waiting for sub-agents."""
        owner = self.owner
        if owner is None:
            yield
            return
        self._waiting += 1
        if owner.has_place:
            owner.has_place = False
            self._free.release()
        try:
            yield
        finally:
            self._waiting -= 1
        if not self._waiting:  # a stopped sub-agent needs no slot to end
            await self._free.acquire()
            owner.has_place = True

    async def wait(self, child: Child, within_s: float) -> bool:
        """Wait at most `within_s` seconds for the end of its task. Return True if it has ended."""
        if not child.is_over:
            async with self._place_free():
                await asyncio.wait({self._tasks[child.plan.id]}, timeout=within_s)
        return child.is_over

    async def stop(self, child: Child) -> None:
        """Stop a sub-agent and wait until it has ended."""
        if not child.is_over:
            await self._stop([child])

    async def send(self, child: Child, text: str) -> bool:
        """Send guidance, or another task if the sub-agent has ended. Return True if it is another task.

        Raises:
            ToolError: its type no longer exists.
        """
        if child.is_ending:
            await asyncio.wait({self._tasks[child.plan.id]})
        if child.is_over:
            self.go_on(child, text, background=True)
            return True
        await child.steer(text)
        return False

    def reports(self) -> dict[str, Attachments]:
        """Return the results of background sub-agents that have ended since the last call, by name."""
        over = [each for each in self._children.values() if each.is_over and not each.is_reported]
        found = [each for each in over if each.plan.background and each.result is not None]
        if not found:
            return {}
        for each in found:
            each.is_reported = True
        return {each.plan.name: report(each) for each in found}

    async def all_ended(self) -> None:
        """Wait until all background sub-agents have ended; a cancellation stops them."""
        running = [each for each in self._children.values() if not each.is_over]
        try:
            if running:
                async with self._place_free():
                    await asyncio.wait({self._tasks[each.plan.id] for each in running})
        except asyncio.CancelledError:
            await self._stop(running)
            raise

    async def control(self, change: ControlAgent) -> str:
        """Carry out a user's action on a sub-agent and return what was done.

        Raises:
            ToolError: there is none of that name, or the action is not possible.
        """
        child = self.named(change.agent)
        match change.action:
            case "stop":
                if child.is_over:
                    raise ToolError(f"{child.plan.name} has ended: {child.state}.")
                await self._stop([child])
                return f"{child.plan.name} is stopped."
            case "send" if await self.send(child, change.text):
                return f"{child.plan.name} has another task."
            case "send":
                return f"{child.plan.name} reads it at its next step."
            case "merge":
                from .isolation import merge_child

                assert self.services is not None
                return await merge_child(child, self.services, self.scope)
            case other:
                assert_never(other)

    def started_by(self, call_id: str) -> Child | None:
        """Return the sub-agent that a call already started in an earlier run of the program; None if there is
        none."""
        return next((each for each in self._children.values() if each.plan.call_id == call_id), None)

    async def aclose(self) -> None:
        """Stop all sub-agents and wait until they have ended."""
        await self._stop([each for each in self._children.values() if not each.is_over])
        await self.end_between()

    def _go(self, child: Child, task: str) -> None:
        child.task = task
        child.state = "queued"
        self._tasks[child.plan.id] = asyncio.create_task(self._run(child, task))

    async def _run(self, child: Child, task: str) -> ChildResult:
        try:
            await self._free.acquire()
            child.has_place = True
            try:
                result = await child.run(task, self._build)
            finally:
                if child.has_place:
                    child.has_place = False
                    self._free.release()
            if not self.scope.turn_id and all(each.is_over for each in self._children.values()):
                await self.end_between()
            return await self._with_worktree(child, result)
        except asyncio.CancelledError:  # its end is recorded anyway
            return child.abandoned()

    async def _with_worktree(self, child: Child, result: ChildResult) -> ChildResult:
        if child.worktree is None or self.services is None:
            return result
        from .isolation import settle

        changed = await settle(child, self.services)
        child.result = msgspec.structs.replace(result, changed=changed)
        return child.result

    async def _stop(self, children: Sequence[Child]) -> None:
        for child in children:
            if child.state == "queued":
                self._tasks[child.plan.id].cancel()
            else:
                child.stop()
        tasks = {self._tasks[child.plan.id] for child in children}
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=_STOP_S)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_STOP_S)

    def tell(self, child: Child, event: ev.AnyEvent) -> None:
        """Forward an event of a sub-agent. Events of nested ones go up to the session that the user sees."""
        if self._above is not None:
            self._above.tell(child, event)
        elif self.services is not None:
            self.services.bus.emit(event)
