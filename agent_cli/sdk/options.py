"""What an agent is made with."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict, cast, get_args

from agent_cli.config.schema import Effort
from agent_cli.protocol.actions import Mode, SandboxLevel

if TYPE_CHECKING:
    from .approvals import Answer, Approve
    from .budget import Budget
    from .hook import Hook
    from .tool import FunctionTool


class AgentError(Exception):
    """The agent is used wrongly, or cannot be started; the text says what to do instead. A turn that fails is no
    such error: its result says why in `stop_reason` and `error`."""


SettingsFiles = Literal["all", "user", "none"]
"""Whose settings are read: those of user and project, of the user alone, or of nobody."""


class AgentDefinition(TypedDict, total=False):
    """A type of sub-agent. What is left out is as the agent has it; it never may more than the agent."""

    description: Required[str]
    """When to use it, for the model that starts it."""
    instructions: str
    """Added to its system prompt."""
    tools: Sequence[str]
    """The names of its tools."""
    mode: Mode
    """The widest mode it runs in."""
    model: str
    effort: Effort
    cost_usd: float
    """Limit on the cost of one task."""
    max_turns: int
    """Limit on the model calls of one task."""
    timeout: float
    """Limit on the time of one task, in seconds."""


class AgentOptions(TypedDict, total=False):
    """What an agent is made with. What is left out is as the settings say, else as `agent run` has it."""

    cwd: str | Path
    """The folder to work in; `~` is the home directory. The current one if left out."""
    model: str
    """As `provider/model`; `replay/FILE` gives the answers of a recorded session."""
    mode: Mode
    """What runs without asking: plan, ask, auto-edit or yolo."""
    sandbox: SandboxLevel
    """What commands may reach: read-only, workspace-write or off."""
    effort: Effort
    """Reasoning effort."""
    cost_usd: float
    """Limit on the cost of one prompt."""
    max_turns: int
    """Limit on the model calls of one prompt."""
    timeout: float
    """Limit on the time of one prompt, in seconds; it then ends with `time_limit`."""
    tools: "Sequence[str | FunctionTool[..., Any]]"
    """The tools to offer: `core`, `read-only`, `full` or names; `-NAME` leaves one out. Functions made a tool by
    `@tool` are offered beside them; without a name all tools are."""
    system_prompt: str
    """A text to use as the system prompt, in place of the built-in one."""
    settings: SettingsFiles
    """Which files are read: `all`, those of the `user`, or `none`. Keys of providers always are."""
    state: str | Path
    """The folder for sessions, checkpoints and caches, in place of the user's."""
    save: bool
    """Whether the session is saved; it is if left out."""
    approve: "Approve"
    """Decides on calls that need approval, with `Allow` or `Deny`; without it they are refused."""
    answer: "Answer"
    """Answers questions of the model; without it there are none."""
    approve_timeout: float
    """Seconds that `approve` and `answer` may take; no answer by then is a refusal. 60 if left out."""
    agents: "Mapping[str, AgentDefinition]"
    """Types of sub-agents, by name."""
    hooks: "Sequence[Hook]"
    """Functions that are called at events."""
    mcp_servers: Mapping[str, Mapping[str, Any]]
    """MCP servers by name, each as under `mcp_servers` in the configuration."""
    config: Mapping[str, Any]
    """Any further key of the configuration."""
    budget: "Budget"
    """A bound on the cost of all agents that are given it."""
    resume: str
    """Resume a session: `last` of the folder, or an id, name or file."""
    fork: str
    """Work on a copy of a session: `last` of the folder, or an id, name or file."""


def checked(options: Mapping[str, Any]) -> AgentOptions:
    """Return options, each of which exists.

    Raises:
        AgentError: one is unknown, or two exclude each other.
    """
    for name in options:
        if name not in AgentOptions.__annotations__:
            raise AgentError(
                f"there is no option {name!r}; the options are {', '.join(AgentOptions.__annotations__)}"
            )
    if "resume" in options and "fork" in options:
        raise AgentError("resume and fork exclude each other: fork copies the session that it names")
    if options.get("settings", "all") not in get_args(SettingsFiles):
        raise AgentError(f"settings is one of {', '.join(get_args(SettingsFiles))}, not {options['settings']!r}")
    return cast(AgentOptions, dict(options))
