"""Services of the composition root for front ends, beyond the engine: lists to show, and the user's own
commands."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from agent_cli.protocol.agent_types import AgentType
from agent_cli.protocol.client import AgentTranscript, ServerStatus
from agent_cli.protocol.messages import Image
from agent_cli.protocol.operations import UserInput
from agent_cli.protocol.usage import Totals

if TYPE_CHECKING:
    import asyncio


class SessionLine(msgspec.Struct, frozen=True):
    """A saved session in a list."""

    id: str
    title: str
    when: str
    """Time as shown, such as `2 h ago`."""
    cwd: str
    turns: int
    used: Totals


MOST_SESSIONS = 200
"""How many sessions are offered to choose from: the newest."""


MOST_FOUND = 20
"""How many messages a search returns: the best."""


class SearchHit(msgspec.Struct, frozen=True):
    """A message found by a search."""

    id: str
    """Id of its session."""
    title: str
    when: str
    who: str
    snippet: str


class MemoryLine(msgspec.Struct, frozen=True):
    """A block of the agent's memory."""

    label: str
    text: str
    limit: int
    """Maximum size in characters."""
    read_only: bool
    path: str


class RuleLine(msgspec.Struct, frozen=True):
    """A permission rule in a list."""

    verdict: str
    rule: str
    place: str
    """Origin: a file and line, or `this session`."""
    is_saved: bool = False
    """True if the user has saved the rule with `always`, so that it can be removed."""


class ModelLine(msgspec.Struct, frozen=True):
    """A known model."""

    name: str
    window: int | None = None
    """Context window in tokens. None if unknown, as for the prices below."""
    input_usd: float | None = None
    """Price per million tokens."""
    output_usd: float | None = None
    has_key: bool = True
    """True if its provider has a key or needs none."""


class ToolLine(msgspec.Struct, frozen=True):
    """A tool offered to the model."""

    name: str
    summary: str
    """First sentence of its description for the model."""
    source: str
    """`built in`, a plugin, or the project."""


class ConfigLine(msgspec.Struct, frozen=True):
    """A key of the configuration."""

    key: str
    """Dotted path."""
    value: str
    """The value as JSON, with secrets masked."""
    place: str
    """Origin: a file and line, a variable, an option, or `built-in default`."""
    is_default: bool
    """True if nothing sets the key."""


class OwnCommand(msgspec.Struct, frozen=True):
    """A slash command defined by the user or the project, for a list."""

    name: str
    """Empty if the file cannot be a command."""
    description: str
    hint: str
    """Description of its arguments."""
    place: str
    """Its file, as shown."""
    problem: str = ""
    """Why the command cannot be used."""
    is_skill: bool = False


class OwnPrompt(msgspec.Struct, frozen=True):
    """The prompt of a custom command."""

    text: str
    """The text with its placeholders."""
    place: str
    agreed: bool
    """True if the user wrote the command, or has seen its present form and approved it."""
    problem: str = ""
    source: Literal["file", "server"] = "file"
    """`server`: the text, including arguments, comes from an MCP server."""
    input: UserInput = UserInput("")
    """The input to send, with its arguments."""
    trust_place: str = ""
    """The place under which an approval is stored; empty: `place`."""


class CommandEnd(msgspec.Struct, frozen=True):
    """The outcome of the user's shell command, or its move to the background."""

    exit_code: int = 0
    job: str = ""
    """Number of the background job; empty if the command has ended."""


class HookLine(msgspec.Struct, frozen=True):
    """A user hook."""

    name: str
    event: str
    matcher: str
    command: str
    source: str
    """The file that defines it."""
    is_off: bool = False
    last: str = ""
    """Outcome of its last run, such as `deny, 12 ms`; empty before the first."""
    runs: int = 0
    about: str = ""
    """When and how it runs, such as `if Bash(git *), once`."""


class SkillLine(msgspec.Struct, frozen=True):
    """A skill."""

    name: str
    about: str
    """Its purpose and when to use it."""
    origin: str
    """`project`, `user`, or the name of its plug-in."""
    place: str
    """Its file."""
    state: str
    """`on`, `user only`, `model only` or `off`."""


class PluginLine(msgspec.Struct, frozen=True):
    """An installed plug-in."""

    name: str
    version: str
    state: str
    """`enabled`, `disabled` or `not used`."""
    brings: str
    """Number of its extensions by kind."""
    source: str
    problem: str = ""


class TracedSpan(msgspec.Struct, frozen=True):
    """A time span in a turn."""

    kind: str
    """The kind, as in `telemetry/span.py: SpanKind`."""
    name: str
    start_s: float
    """Seconds since the turn began, as is `end_s`."""
    end_s: float
    depth: int = 0
    """Number of enclosing spans, not counting the turn."""
    error: str = ""
    first_s: float | None = None
    """For a model call, seconds from its beginning to its first token."""
    waited_s: float = 0.0
    """Seconds spent waiting, for the user or for another attempt."""


class TracedTurn(msgspec.Struct, frozen=True):
    """Timing of a turn."""

    number: int
    """Number of its prompt; 0 for work outside of prompts."""
    began: str
    """Start time as shown."""
    duration_s: float
    shares: dict[str, float]
    """Seconds by `session/timing.py: Share`."""
    spans: tuple[TracedSpan, ...]
    """In order of their start, each after its parent."""
    ended: bool = True
    used: str = ""
    """Tokens and cost, in words."""


class FrontEndServices(Protocol):
    """Services behind slash commands and `!command`."""

    def sessions(self) -> tuple[SessionLine, ...]:
        """Return the saved sessions of this directory, newest first. Long ones may take seconds the first time, so
        it is called in a thread."""

    async def find_session(self, name: str) -> tuple[str, str]:
        """Return the id of the one saved session, of any directory, whose id begins with `name` or whose title is
        `name`; or an empty id and why there is none."""

    async def search(self, query: str) -> tuple[SearchHit, ...]:
        """Search the messages of all sessions; return the hits, best first."""

    async def traced(self) -> tuple[TracedTurn, ...] | str:
        """Return the timing of each turn, oldest first, or why it is unknown."""

    async def export(self, argument: str) -> str:
        """Write this session to a file, named or not; return a message about the result."""

    def memory(self) -> tuple[MemoryLine, ...]:
        """Return the blocks of the agent's memory."""

    def add_note(self, scope: Literal["project", "user"], text: str) -> str:
        """Append the user's note to a block of the memory; return a message about the result."""

    def undo_note(self) -> str:
        """Remove the last note of this session; return a message about the result."""

    async def picture(self) -> Image | str:
        """Return the image in the clipboard, or why there is none."""

    async def copy(self, text: str) -> str:
        """Copy a text to the clipboard of this machine's desktop; return the program used, empty if there is
        none."""

    def paths(self, root: str) -> Iterable[str]:
        """Yield the files and folders below `root` to offer for `@`; may take a moment, so it is called in a
        thread."""

    def paths_in(self, root: str, folder: str, begun: str) -> Iterable[str]:
        """Yield the entries of a folder, given relative to `root`; if there are very many, those whose names begin
        with `begun`."""

    def branch(self) -> str:
        """Return the git branch that is checked out, reading as few bytes as possible; empty for none."""

    def init_input(self, focus: str) -> UserInput:
        """Return the input that makes the model write the project's instructions file."""

    def permissions(self) -> tuple[RuleLine, ...]:
        """Return the rules in force, in the order they are tried."""

    def models(self, query: str) -> tuple[ModelLine, ...]:
        """Return the known models whose names contain all words of `query`, usable ones first; for the short name
        of a family the model it stands for."""

    async def usual_models(self) -> tuple[ModelLine, ...]:
        """Return a short list to choose from: the models of the configured servers, then the newest of the usual
        families. Waits only a moment for servers."""

    def tools(self) -> tuple[ToolLine, ...]:
        """Return the tools offered to the model, in order."""

    def servers(self) -> tuple[tuple[ServerStatus, ...], tuple[str, ...]]:
        """Return the MCP servers, and the problems of their definitions."""

    async def change_server(self, name: str, change: Literal["restart", "on", "off"]) -> str:
        """Restart an MCP server, or switch it on or off for this session; return a message about the result."""

    def hooks(self) -> tuple[tuple[HookLine, ...], tuple[str, ...]]:
        """Return the hooks in force, and the problems of their definitions."""

    def turn_hook(self, name: str, *, on: bool) -> None:
        """Switch a hook on or off for this session."""

    def agent_types(self) -> tuple[AgentType, ...]:
        """Return the types of sub-agents that can be started."""

    async def agent_diff(self, agent: str) -> str:
        """Return the changes of a sub-agent in its own worktree as a diff, or why there is none."""

    def agent_transcript(self, path: str) -> AgentTranscript:
        """Read the session of a sub-agent, which may still be running."""

    def plugins(self) -> tuple[PluginLine, ...]:
        """Return the plug-ins as of the start of the session."""

    def notify_turn_ended(self, text: str) -> None:
        """Notify the hooks that the user was called after the end of a turn; `text` is its outcome."""

    def config(self) -> tuple[ConfigLine, ...]:
        """Return every key of the configuration with its effective value."""

    async def bug(self, facts: Mapping[str, str]) -> str:
        """Write a bug report to a file, with secrets masked; `facts` are added. Return a message about the
        result."""

    def doctor(self, width: int) -> AsyncGenerator[str, None]:
        """Yield the results of the checks of `agent doctor`, in rows of at most `width` columns."""

    def review(self, argument: str) -> AsyncGenerator[str, None]:
        """Review a change in separate conversations, and yield progress and findings line by line; the lines are
        safe to print."""

    def own_commands(self) -> tuple[OwnCommand, ...]:
        """Return the commands defined by the user and the project, then the skills, as they are now."""

    def own_prompt(self, name: str, argument: str) -> OwnPrompt | None:
        """Return the current prompt of a custom command or skill with the arguments typed; None if there is none
        of this name."""

    async def server_prompt(self, name: str, words: Sequence[str]) -> OwnPrompt | None:
        """Fetch a prompt of an MCP server by `SERVER:NAME`, with positional arguments; None if there is none."""

    def skills(self) -> tuple[tuple[SkillLine, ...], tuple[str, ...]]:
        """Return the skills, and the problems of skill files."""

    def agree(self, prompt: OwnPrompt) -> None:
        """Record that the user approved the present form of a command of the project."""

    async def run_command(
        self, command: str, emit: Callable[[str], None], background: "asyncio.Event | None" = None
    ) -> CommandEnd:
        """Run the user's shell command; `emit` receives its output in pieces. Once `background` is set, it
        continues as a background job of the session, whose output the model may read."""
