"""What a tool is: a declaration and one coroutine.

A tool never asks and never decides: it says which `Action`s a call means, can show what it would do, and
does it. `engine.tool_calls.runner` owns the road between those three. Parameters are a frozen `msgspec.Struct`,
so that arguments are validated with a path in the message and the JSON Schema comes for free; the text
the model reads lies beside the tool as `<name>.md`.
"""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import msgspec

from agent_cli.protocol.actions import Action, Reach
from agent_cli.protocol.messages import FileChange, Image, MemoryChange, PlanItem, ResultKind
from agent_cli.protocol.operations import InsertedCommand
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.profile.confinement import Confinement
from agent_cli.workspace.files.content_cache import ContentCache
from agent_cli.workspace.memory import Memory
from agent_cli.workspace.paths import PathError, Resolved, Workspace

from .output import MAX_RESULT_TOKENS

if TYPE_CHECKING:
    from agent_cli.redaction.redactor import Redactor

    from ..shell.background_jobs import Jobs
    from ..shell.shell_session import ShellSession


class ToolError(Exception):
    """The call cannot be done; the text tells the model why and what to do instead. `seen` is set when the text
    shows the model what stands in files, as in `ToolOutcome`."""

    seen: Mapping[str, str] = MappingProxyType({})


class UnknownTool(ToolError):
    """A call of a tool that is not offered."""


class Preview(msgspec.Struct, frozen=True):
    """What a person sees before allowing a call."""

    text: str
    kind: Literal["command", "diff", "text"] = "text"
    note: str = ""
    """What else there is to know, such as that a command runs in the background."""
    folder: str = ""
    """Where a command starts, relative to the workspace, `.` for its root; empty when unknown."""
    by_hunk: bool = False
    """It is a diff, any hunks of which may be made without the others."""


class ToolOutcome(msgspec.Struct, frozen=True):
    """The result of a call, for its two readers."""

    text: str
    """For the model."""
    display: str = ""
    """For the user: a diff, a one-line summary; empty where `text` says it all."""
    ok: bool = True
    images: tuple[Image, ...] = ()
    changes: tuple[FileChange, ...] = ()
    command: str = ""
    exit_code: int | None = None
    finished: bool = False
    """The task is done: the turn ends here, with `text` as its answer."""
    seen: dict[str, str] = {}
    """Absolute path → content hash of each file read or written."""
    plan: tuple[PlanItem, ...] | None = None
    job: str = ""
    """The number of the job as which the command goes on."""
    cwd: str = ""
    """Where the next command starts, once a command has gone elsewhere."""
    blocked: str = ""
    """What the sandbox kept a command from, in words; empty when it failed for another reason or not at all."""
    blocked_hosts: tuple[str, ...] = ()
    """The hosts, where it was the network that it was kept from and they are known."""
    needs: Reach = "outside"
    """With how much of the machine it would have worked."""
    untrusted: str = ""
    """Where untrusted text in it came from, such as a host; empty when there is none."""
    memory: tuple[MemoryChange, ...] = ()
    """What was changed in the agent's memory."""


class Egress(Protocol):
    """How confined commands reach the hosts that are allowed; the engine has it."""

    @property
    def connected(self) -> int:
        """How many connections to hosts were made so far."""
        ...

    async def open(self) -> str:
        """Return the URL of a proxy, for a command that is about to start; empty where no host is allowed."""
        ...

    def take_refused(self) -> tuple[str, ...]:
        """Return the hosts that commands wanted and did not get since the last call."""
        ...


class Resources(Protocol):
    """Documents of external servers, which a prompt may name."""

    def find(self, name: str) -> tuple[str, str] | None:
        """Return server and address of what a prompt names `SERVER:URI`; None where no server has that name."""
        ...

    async def read(self, server: str, uri: str) -> "ToolOutcome":
        """Read one.

        Raises:
            ToolError: it cannot be read, and why.
        """
        ...


class Buffers(Protocol):
    """Files as the user's editor has them; a front end in an editor has it."""

    async def text(self, path: str) -> str | None:
        """Return the text of a file (absolute path), unsaved or not; None where the editor cannot say."""
        ...

    async def show(self, path: str, text: str) -> None:
        """Give the editor the text of a file that was written, so that its buffer agrees."""
        ...


Confine = Callable[[Path | None], Confinement | None]
Question = Callable[[str, tuple[str, ...]], Awaitable[str]]
"""Asks the user `question` with `options`; gives their words."""

Insert = Callable[[str, Sequence[InsertedCommand], Sequence[str]], Awaitable[str]]
"""Runs commands of a text like calls of the model, and gives the text with their output in their places; the last
argument are permission rules that hold until the turn ends."""


async def _no_history(query: str) -> tuple[str, str]:
    return "There is no earlier conversation.", ""


class ToolContext(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """All that a tool may reach: the workspace, processes, and what a session knows of files and commands.

    Made once a session; each call gets a copy by `for_call`, which shares everything but the last group of fields.
    """

    workspace: Workspace
    processes: ProcessRunner
    shell: "ShellSession"
    jobs: "Jobs"
    spill_dir: Path
    """Where output too long for the model is kept whole; created when first needed."""
    cache_dir: Path
    """What can be worked out again; may be deleted at any time."""
    seen: dict[str, str]
    """Absolute path → hash of the content the model knows."""
    known: ContentCache = msgspec.field(default_factory=ContentCache)
    redactor: "Redactor | None" = None
    """Masks secrets in what is kept on disk."""
    memory: Memory | None = None
    """The blocks of text that outlast the conversation; None where there are none."""
    may_show: Callable[[str], bool] = lambda path: True
    """Whether content of a file (absolute path) that nobody named may come up in a search."""
    ask: Question | None = None
    """Puts a question to the user; None where nobody can answer."""
    recall: Callable[[str], str | None] = lambda call_id: None
    """The whole text of an earlier call's result or message, by its id; None when there is none."""
    search_history: Callable[[str], Awaitable[tuple[str, str]]] = _no_history
    """What was said of a query before, in words, and where text from others in it came from."""
    max_tokens: Callable[[], int] = lambda: MAX_RESULT_TOKENS
    """How many tokens, estimated, a result may have; the runner cuts what is longer."""
    egress: Egress | None = None
    """For confined commands; None: they have none."""
    resources: Resources | None = None
    """Documents of external servers; None: there are none."""
    buffers: Buffers | None = None
    """Files in the user's editor; None: there is no editor."""
    package_cache: Path | None = None
    """Where confined package managers keep what they have loaded."""
    pass_env: tuple[str, ...] = ()
    """Variables that confined commands see although they look like secrets."""
    traced: Callable[[Mapping[str, str], str], dict[str, str]] | None = None
    """Returns the environment of a command while the session is traced, by the id of its call; None: it is not."""
    shell_timeout_s: float = 120.0
    silent_after_s: float = 15.0
    """Silence from which on that is said, and a command looks as if it waited for input."""

    call_id: str = ""
    insert: Insert | None = None
    """Runs commands whose output belongs into the result, as those of a skill do; None where there can be none."""
    emit: Callable[[str], None] = lambda text: None
    """Shows a piece of live output."""
    silent: Callable[[float], None] = lambda silent_s: None
    """Says that the call has shown nothing for so many seconds."""
    confine: Confine = lambda report: None
    """What a command of this call may reach; None where it is not confined. `report` is a folder that it may
    write to besides."""
    leaves: bool = False
    """A command of this call leaves the sandbox in which those before it ran."""
    hunks: Collection[int] | None = None
    """Which hunks of the change, by number from 0, the user approved; None for all."""
    places: frozenset[str] | None = None
    """The real paths that the call was judged by and keeps to; None before it was judged."""

    def for_call(self, call_id: str, **given: Any) -> "ToolContext":
        """Return a copy for one call; `given` are values of the last group of fields."""
        return msgspec.structs.replace(self, call_id=call_id, **given)

    def leaving(self, leaves: bool) -> "ToolContext":
        """Return a copy for a command that leaves the sandbox, or does not."""
        return msgspec.structs.replace(self, leaves=leaves)

    def within(self, places: frozenset[str]) -> "ToolContext":
        """Return a copy for a call that keeps to the real paths it was judged by."""
        return msgspec.structs.replace(self, places=places)

    def with_all_hunks(self) -> "ToolContext":
        """Return a copy for a change that is made whole."""
        return msgspec.structs.replace(self, hunks=None)


class Tool(Protocol):
    """A tool. `P` below stands for the tool's own `Params`."""

    @property
    def name(self) -> str: ...

    @property
    def Params(self) -> type[msgspec.Struct]: ...

    @property
    def editable(self) -> str:
        """The string parameter a person may edit before running; empty when none."""
        ...

    @property
    def result_kind(self) -> ResultKind:
        """What of its results a front end shows."""
        ...

    @property
    def label(self) -> str:
        """What it does, in the word shown to people, such as `Edit`; empty for its name."""
        ...

    @property
    def counted(self) -> str:
        """What its calls are counted in when several are shown as one, such as `file`; empty when they are not."""
        ...

    def title(self, params: Any) -> str:
        """One line for the user: the path, pattern or command."""
        ...

    def actions(self, params: Any, context: ToolContext) -> tuple[Action, ...]:
        """Return what running would do.

        Raises:
            ToolError: the parameters make no sense (a path that cannot be, for example).
        """
        ...

    async def preview(self, params: Any, context: ToolContext) -> Preview:
        """Return what would change.

        Raises:
            ToolError: it could not be done, for the reason given.
        """
        ...

    async def run(self, params: Any, context: ToolContext) -> ToolOutcome:
        """Do it.

        Raises:
            ToolError: it could not be done, for the reason given; nothing was changed.
        """
        ...


@runtime_checkable
class ForeignTool(Protocol):
    """A tool whose parameters are described by a schema from elsewhere."""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of its parameters."""
        ...

    def read_arguments(self, arguments: dict[str, Any]) -> Any:
        """Return a call's parameters.

        Raises:
            ToolError: they do not fit the schema.
        """
        ...


@runtime_checkable
class NamesTool(Protocol):
    """A tool whose calls are calls of another, named in the parameters."""

    def meant_call(self, params: Any) -> "tuple[Tool, Any]":
        """Return the other tool and its parameters.

        Raises:
            ToolError: there is no such tool, or they are not its parameters.
        """
        ...


@runtime_checkable
class NeedsPreparation(Protocol):
    """A tool that has to look outside before a call of it can be judged."""

    async def make_ready(self, context: ToolContext) -> None:
        """Bring it up to date.

        Raises:
            ToolError: it cannot be used, for the reason given.
        """
        ...


class BasicTool(ABC):
    """What most tools share: nothing that a person edits, no side effect, and a preview that is the title."""

    editable = ""
    result_kind: ResultKind = "text"
    label = ""
    counted = ""

    @abstractmethod
    def title(self, params: Any) -> str:
        """Return the call in one line, as `Tool.title`."""

    def actions(self, params: Any, context: ToolContext) -> tuple[Action, ...]:
        return ()

    async def preview(self, params: Any, context: ToolContext) -> Preview:
        return Preview(self.title(params))


def locate(context: ToolContext, path: str, *, existing: bool = False) -> Resolved:
    """Return the real place of a path the model wrote. To go there by its real path follows no link.

    Raises:
        ToolError: it cannot be a path; or it should be `existing`, and is so only from where commands start; or
            it leads elsewhere than when the call was judged.
    """
    return kept_to(context, meant(context, path, existing=existing))


def kept_to(context: ToolContext, place: Resolved) -> Resolved:
    """Return the place, if it is one of those the call was judged by.

    Raises:
        ToolError: it is not: a link has been put in its way.
    """
    if context.places is not None and place.real not in context.places:
        raise ToolError(
            f"{place.shown} points somewhere else now than when the call was approved; nothing was done. Check it"
            " again."
        )
    return place


def meant(context: ToolContext, path: str, *, existing: bool = False) -> Resolved:
    """As `locate`, for a path that is not yet all there is to the place.

    Raises:
        ToolError: as `locate`, but for what it was judged by.
    """
    try:
        place = context.workspace.resolve(path)
        if not existing or os.path.lexists(place.real) or context.shell.start == context.workspace.root:
            return place
        here = context.workspace.resolve(str(context.shell.start / path))
    except PathError as error:
        raise ToolError(str(error)) from error
    if context.workspace.contains(here.real) and os.path.lexists(here.real):
        raise ToolError(
            f"{path} does not exist: file tools start at the workspace root. Did you mean {here.relative}?"
        )
    return place


def describe(tool: Tool) -> str:
    """Return the tool's text for the model: its own, or `<name>.md` beside its module."""
    if isinstance(own := getattr(tool, "description", None), str):
        return own.strip()
    return (
        Path(sys.modules[type(tool).__module__].__file__ or "")
        .with_name(f"{tool.name}.md")
        .read_text(encoding="utf-8")
        .strip()
    )
