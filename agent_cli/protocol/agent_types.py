"""Types of sub-agents, defined by the user, the project or this program, and the states of a running one."""

from typing import Literal

import msgspec

from .actions import Mode

AgentState = Literal["queued", "running", "waiting", "done", "failed", "stopped", "over_budget"]
"""A sub-agent is in exactly one state; `waiting` means that it waits for an answer from the user."""
ENDED: frozenset[AgentState] = frozenset({"done", "failed", "stopped", "over_budget"})


class AgentType(msgspec.Struct, frozen=True, kw_only=True):
    """A type of sub-agent. Unset fields inherit from the parent; no field widens the parent's rights."""

    name: str
    description: str
    """When to use this type, for the model that starts it."""
    instructions: str = ""
    """Text appended to the system prompt."""
    tools: tuple[str, ...] | None = None
    """Names of the available tools, including patterns such as `mcp__docs__*`; None for the parent's tools."""
    without_tools: tuple[str, ...] = ()
    """Names of tools to exclude."""
    ask_rules: tuple[str, ...] = ()
    """Permission rules that ask, such as `shell(git push *)`, in addition to the parent's."""
    deny_rules: tuple[str, ...] = ()
    """Permission rules that deny, in addition to the parent's."""
    mode: Mode | None = None
    """The most permissive mode it may run in."""
    model: str = ""
    """Model name or alias; empty for the parent's model."""
    effort: str = ""
    max_turns: int | None = None
    """Maximum number of model calls per task."""
    max_cost_usd: float | None = None
    max_time_s: float | None = None
    background: bool = False
    isolation: Literal["", "worktree"] = ""
    skills: tuple[str, ...] = ()
    """Names of skills whose instructions are added to its task."""
    source: str = ""
    """The file that defines the type; empty for a built-in one."""
    origin: Literal["built-in", "user", "project", "plugin"] = "built-in"
