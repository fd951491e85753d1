"""What a sub-agent may be: a type that the user, the project or this program defines, and the states of one."""

from typing import Literal

import msgspec

from .actions import Mode

AgentState = Literal["queued", "running", "waiting", "done", "failed", "stopped", "over_budget"]
"""Exactly one at a time; `waiting` is for an answer of the user's."""
ENDED: frozenset[AgentState] = frozenset({"done", "failed", "stopped", "over_budget"})


class AgentType(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of sub-agent. What it leaves open is as the parent has it; it never widens what the parent may."""

    name: str
    description: str
    """When to use it, for the model that starts it."""
    instructions: str = ""
    """Added to the system prompt."""
    tools: tuple[str, ...] | None = None
    """Names of the tools it has, patterns such as `mcp__docs__*` among them; None for those of the parent."""
    without_tools: tuple[str, ...] = ()
    """Names of tools it does not have."""
    ask_rules: tuple[str, ...] = ()
    """Permission rules that ask, such as `shell(git push *)`, besides those of the parent."""
    deny_rules: tuple[str, ...] = ()
    """Permission rules that deny, besides those of the parent."""
    mode: Mode | None = None
    """The widest mode it runs in."""
    model: str = ""
    """The model's name or alias; empty for that of the parent."""
    effort: str = ""
    max_turns: int | None = None
    """Model calls of one task."""
    max_cost_usd: float | None = None
    max_time_s: float | None = None
    background: bool = False
    isolation: Literal["", "worktree"] = ""
    skills: tuple[str, ...] = ()
    """Names of skills that its task brings along."""
    source: str = ""
    """The file that defines it; empty for one that is built in."""
    origin: Literal["built-in", "user", "project", "plugin"] = "built-in"
