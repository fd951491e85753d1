"""The options of an agent."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict

from agent_cli.protocol.actions import Mode, SandboxLevel
from agent_cli.protocol.usage import Effort

if TYPE_CHECKING:
    from .approvals import Answer, Approve
    from .budget import Budget
    from .hook import Hook
    from .tool import FunctionTool


class AgentError(Exception):
    """The agent is used incorrectly, or cannot be started; the text says what to do instead. A failed turn does
    not raise it: its result has `stop_reason` and `error`."""


SettingsFiles = Literal["all", "user", "none"]
"""Settings files to read: those of user and project, of the user alone, or none."""


class AgentDefinition(TypedDict, total=False):
    """A type of sub-agent. Omitted keys default to the agent's values; it never has more rights than the agent."""

    description: Required[str]
    """When to use it, for the model that starts it."""
    instructions: str
    """Added to its system prompt."""
    tools: Sequence[str]
    """The names of its tools."""
    mode: Mode
    """The most permissive mode in which it runs."""
    model: str
    effort: Effort
    cost_usd: float
    """Limit on the cost of one task, in US dollars."""
    max_turns: int
    """Limit on the model calls of one task."""
    timeout: float
    """Limit on the time of one task, in seconds."""


class AgentOptions(TypedDict, total=False):
    """The options of an agent. Omitted options default to the settings files, then to the defaults of `agent
    run`."""

    cwd: str | Path
    """The working directory; `~` is the home directory. Defaults to the current one."""
    model: str
    """`provider/model`; `replay/FILE` replays the answers of a recorded session."""
    mode: Mode
    """What runs without asking: plan, ask, auto-edit or yolo."""
    sandbox: SandboxLevel
    """What commands may access: read-only, workspace-write or off."""
    effort: Effort
    """Reasoning effort."""
    cost_usd: float
    """Limit on the cost of one prompt, in US dollars."""
    max_turns: int
    """Limit on the model calls of one prompt."""
    timeout: float
    """Limit on the time of one prompt, in seconds; it then ends with `time_limit`."""
    tools: "Sequence[str | FunctionTool[..., Any]]"
    """The tools to offer: `core`, `read-only`, `full` or names; `-NAME` omits one. Functions decorated with
    `@tool` are offered in addition; without any name all tools are."""
    system_prompt: str
    """Replaces the built-in system prompt."""
    settings: SettingsFiles
    """Settings files to read: `all`, those of the `user`, or `none`. Keys of providers are always read."""
    state: str | Path
    """Folder for sessions, checkpoints and caches, instead of the user's."""
    save: bool
    """Save the session; true by default."""
    approve: "Approve"
    """Decides on calls that need approval, with `Allow` or `Deny`; without it they are refused."""
    answer: "Answer"
    """Answers questions of the model; without it they get no answer."""
    approve_timeout: float
    """Timeout of `approve` and `answer` in seconds; after it the answer is a refusal. Default: 60."""
    agents: "Mapping[str, AgentDefinition]"
    """Types of sub-agents, by name."""
    hooks: "Sequence[Hook]"
    """Functions that are called at events."""
    mcp_servers: Mapping[str, Mapping[str, Any]]
    """MCP servers by name, each as under `mcp_servers` in the configuration."""
    config: Mapping[str, Any]
    """Any other keys of the configuration."""
    budget: "Budget"
    """A limit on the total cost of all agents that share it."""
    resume: str
    """Resume a session: `last` of the folder, or an id, name or file."""
    fork: str
    """Work on a copy of a session: `last` of the folder, or an id, name or file."""


def is_amount(value: object) -> bool:
    """Return True for a number greater than 0."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
