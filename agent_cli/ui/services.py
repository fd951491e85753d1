"""What the composition root offers a front end beyond the engine: lists to show, the user's own commands."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from agent_cli.protocol.agent_types import AgentType
from agent_cli.protocol.client import AgentTranscript
from agent_cli.protocol.messages import Image
from agent_cli.protocol.operations import UserInput

if TYPE_CHECKING:
    import asyncio


class SessionLine(msgspec.Struct, frozen=True):
    """One saved session in a list."""

    id: str
    title: str
    when: str
    """As shown, such as `2 h ago`."""
    cwd: str
    turns: int
    cost_usd: float | None


class HitLine(msgspec.Struct, frozen=True):
    """One message that a search has found."""

    id: str
    """Of its session."""
    title: str
    when: str
    who: str
    snippet: str


class MemoryLine(msgspec.Struct, frozen=True):
    """One block of the agent's memory."""

    label: str
    text: str
    limit: int
    """In characters."""
    read_only: bool
    path: str


class RuleLine(msgspec.Struct, frozen=True):
    """One permission rule in a list."""

    verdict: str
    rule: str
    place: str
    """Where it comes from: a file and line, or `this session`."""
    is_saved: bool = False
    """Whether the user has saved it with `always`, so that it can be removed."""


class ModelLine(msgspec.Struct, frozen=True):
    """One known model."""

    name: str
    window: int | None = None
    """Tokens; None where it is unknown, as are prices below."""
    input_usd: float | None = None
    """For a million tokens."""
    output_usd: float | None = None
    has_key: bool = True
    """Whether its provider has a key, or needs none."""


class ToolLine(msgspec.Struct, frozen=True):
    """One tool that the model is offered."""

    name: str
    summary: str
    """The first sentence of what the model is told of it."""
    source: str
    """`built in`, a plugin, or the project."""


class ConfigLine(msgspec.Struct, frozen=True):
    """One key of the configuration."""

    key: str
    """Dotted."""
    value: str
    """As JSON, secrets masked."""
    place: str
    """A file and line, a variable, an option, or `built-in default`."""
    is_default: bool
    """Whether nothing sets it."""


class OwnCommand(msgspec.Struct, frozen=True):
    """A slash command that the user or the project has written, for a list."""

    name: str
    """Empty where the file cannot be one."""
    description: str
    hint: str
    """What to write behind its name."""
    place: str
    """Its file, as shown."""
    problem: str = ""
    """Why it cannot be used."""
    is_skill: bool = False


class OwnPrompt(msgspec.Struct, frozen=True):
    """What a command of the user's own stands for."""

    text: str
    """With its placeholders."""
    place: str
    agreed: bool
    """Whether the user wrote it, or has seen it as it is now and agreed to it."""
    problem: str = ""
    source: Literal["file", "server"] = "file"
    """`server`: an MCP server gave the text, arguments included."""
    input: UserInput = UserInput("")
    """What is sent, with its arguments."""


class CommandEnd(msgspec.Struct, frozen=True):
    """How the user's own command ended, or that it continues in the background."""

    exit_code: int = 0
    job: str = ""
    """Number of the background job that it has become; empty when it has ended."""


class ServerLine(msgspec.Struct, frozen=True):
    """One MCP server."""

    name: str
    state: str
    """`idle`, `starting`, `ready`, `failed`, `login needed`, `off`, `untrusted` or `broken`."""
    address: str
    source: str
    """The file that defines it."""
    tools: tuple[str, ...] = ()
    tokens: int = 0
    """Estimated size of the definitions of its tools."""
    error: str = ""
    server: str = ""
    """Name, version and protocol revision it gives itself."""
    prompts: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    """Its last words on stderr."""


class HookLine(msgspec.Struct, frozen=True):
    """One hook of the user's."""

    name: str
    event: str
    matcher: str
    command: str
    source: str
    """The file that defines it."""
    is_off: bool = False
    last: str = ""
    """How its last run went, such as `deny, 12 ms`; empty before it ran."""
    runs: int = 0
    about: str = ""
    """When and how it is run, such as `if Bash(git *), once`."""


class SkillLine(msgspec.Struct, frozen=True):
    """One skill."""

    name: str
    about: str
    """What it does and when to use it."""
    origin: str
    """`project`, `user`, or the plug-in that brings it."""
    place: str
    """Its file."""
    state: str
    """`on`, `user only`, `model only` or `off`."""


class PluginLine(msgspec.Struct, frozen=True):
    """One installed plug-in."""

    name: str
    version: str
    state: str
    """`enabled`, `disabled` or `not used`."""
    brings: str
    """How much of what."""
    source: str
    problem: str = ""


class TracedSpan(msgspec.Struct, frozen=True):
    """One stretch of time in a turn."""

    kind: str
    """As in `telemetry/span.py: SpanKind`."""
    name: str
    start_s: float
    """Since the turn began; `end_s` likewise."""
    end_s: float
    depth: int = 0
    """How many others it lies in, the turn not counted."""
    error: str = ""
    first_s: float | None = None
    """Of a model call: from its beginning to its first token."""
    waited_s: float = 0.0
    """What of it was spent waiting, for the user or for another attempt."""


class TracedTurn(msgspec.Struct, frozen=True):
    """Where the time of one turn went."""

    number: int
    """Of its prompt; 0 for what no prompt has asked for."""
    began: str
    """As shown."""
    duration_s: float
    shares: dict[str, float]
    """Seconds by `session/timing.py: Share`."""
    spans: tuple[TracedSpan, ...]
    """In the order they began, each behind the one it lies in."""
    ended: bool = True
    used: str = ""
    """Tokens and cost, in words."""


class Host(Protocol):
    """Services behind slash commands and `!command`."""

    def sessions(self) -> tuple[SessionLine, ...]:
        """Saved sessions of this directory, newest first."""
        ...

    async def search(self, query: str) -> tuple[HitLine, ...]:
        """Return what was said of a query in all sessions, the best first."""
        ...

    async def traced(self) -> tuple[TracedTurn, ...] | str:
        """Return where the time of each turn went, oldest first, or why that is not known."""
        ...

    async def export(self, argument: str) -> str:
        """Write this session to a file, named or not; gives what was done, or why not, in words."""
        ...

    def memory(self) -> tuple[MemoryLine, ...]:
        """Return the blocks of the agent's memory."""
        ...

    def add_note(self, scope: Literal["project", "user"], text: str) -> str:
        """Append the user's note to a block of the memory; gives where, or why not, in words."""
        ...

    def undo_note(self) -> str:
        """Take the last note of this session back; gives what was done, in words."""
        ...

    async def picture(self) -> Image | str:
        """Return the picture in the clipboard, or why there is none."""
        ...

    async def copy(self, text: str) -> str:
        """Put a text into the clipboard of this machine's desktop; gives the program that took it, empty where
        there is none that does."""
        ...

    def paths(self, root: str) -> Iterable[str]:
        """Files and folders below `root` to offer for `@`; may take a moment, and is asked for in a thread."""
        ...

    def paths_in(self, root: str, folder: str, begun: str) -> Iterable[str]:
        """Return the same right in one folder below `root`, which is named relative to it; of very many entries
        those whose names begin so."""
        ...

    def branch(self) -> str:
        """Return the git branch that is checked out, as few bytes are read as that takes; empty for none."""
        ...

    def init_prompt(self, focus: str) -> str:
        """Return what is asked of the model to write the project's instructions file."""
        ...

    def permissions(self) -> tuple[RuleLine, ...]:
        """Return the rules in force, in the order they are tried."""
        ...

    def models(self, query: str) -> tuple[ModelLine, ...]:
        """Known models whose name contains all words of `query`, those that can be used first; of the short name
        of a family the one it stands for."""
        ...

    async def usual_models(self) -> tuple[ModelLine, ...]:
        """Return a short list to choose from: what the configured servers offer, then the newest of the usual
        families. Servers are waited for a moment."""
        ...

    def tools(self) -> tuple[ToolLine, ...]:
        """Return the tools that the model is offered, in their order."""
        ...

    def servers(self) -> tuple[tuple[ServerLine, ...], tuple[str, ...]]:
        """Return the MCP servers, and what is wrong with definitions of them."""
        ...

    async def change_server(self, name: str, change: Literal["restart", "on", "off"]) -> str:
        """Restart an MCP server, or switch it on or off for this session; gives what came of it, in words."""
        ...

    def hooks(self) -> tuple[tuple[HookLine, ...], tuple[str, ...]]:
        """Return the hooks in force, and what is wrong with definitions of them."""
        ...

    def turn_hook(self, name: str, *, on: bool) -> None:
        """Switch a hook on or off for this session."""
        ...

    def agent_types(self) -> tuple[AgentType, ...]:
        """Return the types of sub-agents that can be started."""
        ...

    async def agent_diff(self, agent: str) -> str:
        """Return what a sub-agent has changed in a worktree of its own, as a diff, or why there is none."""
        ...

    def agent_transcript(self, path: str) -> AgentTranscript:
        """Read the session of a sub-agent, which may go on meanwhile."""
        ...

    def plugins(self) -> tuple[PluginLine, ...]:
        """Return the plug-ins as they were when the session began."""
        ...

    def prompt_awaited(self, text: str) -> None:
        """Tell the hooks that the user was called since a turn has ended, and how it ended."""
        ...

    def config(self) -> tuple[ConfigLine, ...]:
        """Return every key of the configuration with its effective value."""
        ...

    async def bug(self, facts: Mapping[str, str]) -> str:
        """Write what somebody would need to find a fault into a file, secrets masked; `facts` are added. Gives
        what was written where, or why not, in words."""
        ...

    def doctor(self) -> AsyncGenerator[str, None]:
        """Yield what the checks of `agent doctor` find, line by line."""
        ...

    def review(self, argument: str) -> AsyncGenerator[str, None]:
        """Review a change in conversations of their own, and yield what is being done and found, line by line; the
        lines are safe to print."""
        ...

    def own_commands(self) -> tuple[OwnCommand, ...]:
        """Return the commands that the user and the project have written, then the skills, as they are now."""
        ...

    def own_prompt(self, name: str, argument: str) -> OwnPrompt | None:
        """Return what such a command or a skill stands for now, with what was typed after its name; None where
        there is none of that name."""
        ...

    async def server_prompt(self, name: str, words: Sequence[str]) -> OwnPrompt | None:
        """Fetch a prompt of an MCP server by `SERVER:NAME`, arguments by position; None where there is none."""
        ...

    def skills(self) -> tuple[tuple[SkillLine, ...], tuple[str, ...]]:
        """Return the skills, and what is wrong with files of skills."""
        ...

    def agree(self, prompt: OwnPrompt) -> None:
        """Remember that the user agreed to a command of the project as it is."""
        ...

    async def run_command(
        self, command: str, emit: Callable[[str], None], background: "asyncio.Event | None" = None
    ) -> CommandEnd:
        """Run the user's own command line; output goes to `emit` in pieces. Once `background` is set, it continues
        as a background job of the session, which the model may read."""
        ...
