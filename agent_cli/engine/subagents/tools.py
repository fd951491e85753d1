"""The tools `agent` and `agents`: start sub-agents, and manage the running ones."""

import asyncio
from typing import Annotated, Literal, assert_never

import msgspec

from agent_cli.protocol.messages import ResultKind
from agent_cli.tools.kit.base import BasicTool, ToolContext, ToolError, ToolOutcome
from agent_cli.tools.kit.output import counted

from .child import Child
from .results import outcome
from .subagents import Subagents

_MAX_WAIT_S = 600.0


class AgentParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `agent`."""

    task: Annotated[
        str, msgspec.Meta(description="Everything it needs to know: it sees nothing of this conversation")
    ]
    type: Annotated[str, msgspec.Meta(description="One of the types above")] = "general"
    background: Annotated[bool, msgspec.Meta(description="Continue without waiting for it")] = False
    model: Annotated[str, msgspec.Meta(description="Another model of the same provider")] = ""
    resume: Annotated[str, msgspec.Meta(description="Id of one that has ended, to give it a further task")] = ""


class AgentTool(BasicTool):
    """Starts a sub-agent and waits for its answer unless it runs in the background."""

    name = "agent"
    label = "Agent"
    Params = AgentParams
    result_kind: ResultKind = "agent"

    def __init__(self, agents: Subagents) -> None:
        self._agents = agents
        types = "\n".join(f"- {each.name}: {each.description}" for each in agents.types.values())
        self.description = f"{_ABOUT}\nTypes:\n{types}"

    def title(self, params: AgentParams) -> str:
        return f"{params.resume or params.type}: {' '.join(params.task.split())}"

    async def run(self, params: AgentParams, context: ToolContext) -> ToolOutcome:
        if not params.task.strip():
            raise ToolError("The task is empty.")
        if (earlier := self._agents.started_by(context.call_id)) is not None and earlier.result is not None:
            # The program ended before the parent could read it. Undo reads from `changes` which files are its own.
            return msgspec.structs.replace(outcome(earlier, earlier.result), changes=earlier.changes_before)
        child = self._child(params, context.call_id)
        if child.plan.background:
            return ToolOutcome(
                text=f"{child.plan.name} ({child.plan.id}) works in the background. Its result comes with a later"
                " step or with the user's next prompt; if your answer needs it, wait for it with `agents`.",
                display=f"{child.plan.name} works in the background",
            )
        return outcome(child, await self._agents.finished(child))

    def _child(self, params: AgentParams, call_id: str) -> Child:
        agents = self._agents
        if params.resume:
            child = agents.named(params.resume)
            agents.go_on(child, params.task, background=params.background)
            return child
        kind = agents.type_named(params.type)
        return agents.start(params.task, kind, call_id=call_id, background=params.background, model=params.model)


class AgentsParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `agents`."""

    action: Literal["list", "read", "send", "stop", "wait"]
    id: Annotated[str, msgspec.Meta(description="Id or name; not for list")] = ""
    text: Annotated[str, msgspec.Meta(description="For send")] = ""
    wait_s: float = 60.0


class AgentsTool(BasicTool):
    """Lists, reads, messages, stops and waits for sub-agents."""

    name = "agents"
    label = "Agents"
    Params = AgentsParams
    description = (
        "List sub-agents, read what one has found, send it guidance or a further task, stop it,"
        " or wait for its result."
    )

    def __init__(self, agents: Subagents) -> None:
        self._agents = agents

    def title(self, params: AgentsParams) -> str:
        return f"{params.action} {params.id}".strip()

    async def run(self, params: AgentsParams, context: ToolContext) -> ToolOutcome:
        agents = self._agents
        if params.action == "list":
            rows = [
                f"{each.name} ({each.id}): {each.state}, {counted(each.steps, 'step')}. {each.task}"
                for each in agents.lines()
            ]
            return ToolOutcome(text="\n".join(rows) or "There are no sub-agents.")
        child = agents.named(params.id)
        match params.action:
            case "read":
                pass
            case "send":
                return await self._send(child, params.text)
            case "stop":
                await agents.stop(child)
            case "wait":
                await agents.wait(child, min(max(params.wait_s, 0.0), _MAX_WAIT_S))
            case other:
                assert_never(other)
        return self._read(child)

    def _read(self, child: Child) -> ToolOutcome:
        if child.result is None:
            steps = counted(child.steps, "step")
            said = f"{child.plan.name} is {child.state}, {steps}. {child.line}".strip()
            return ToolOutcome(text=said, untrusted=child.untrusted)
        child.is_reported = True
        return outcome(child, child.result)

    async def _send(self, child: Child, text: str) -> ToolOutcome:
        if not text.strip():
            raise ToolError("`send` needs a text.")
        if await self._agents.send(child, text):
            await asyncio.sleep(0)
            return ToolOutcome(text=f"{child.plan.name} has it as its next task; `wait` waits for the result.")
        return ToolOutcome(text=f"{child.plan.name} reads it at its next step.")


_ABOUT = (
    "Give a task to a sub-agent: a session of its own, which answers once. Calls in one"
    " message run at the same time. It has at most your rights, and counts towards your limits."
)
