"""The protocol of a tool: a declaration and one coroutine.

A tool never asks and never decides. It declares the `Action`s of a call, can show what the call would do, and does
it. `engine.tool_calls.runner` controls the steps in between. Parameters are a frozen `msgspec.Struct`, so that
arguments are validated with error paths and the JSON Schema is derived from it. The description for the model is
in `<name>.md` next to the tool.
"""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

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
    """The call cannot be done. The message tells the model why and what to do instead. `seen` is set if the
    message shows the contents of files, and `display` if the user sees another text, as in `ToolOutcome`."""

    seen: Mapping[str, str] = MappingProxyType({})
    display = ""


class AmbiguousEditError(ToolError):
    """The text to be replaced occurs several times."""


class UnknownTool(ToolError):
    """A call of a tool that is not offered."""


class Preview(msgspec.Struct, frozen=True):
    """What the user sees before allowing a call."""

    text: str
    kind: Literal["command", "diff", "text"] = "text"
    note: str = ""
    """Further information, such as that a command runs in the background."""
    folder: str = ""
    """Start folder of a command, relative to the workspace, `.` for its root; empty when unknown."""
    by_hunk: bool = False
    """True for a diff whose hunks can be applied independently."""


class ToolOutcome(msgspec.Struct, frozen=True):
    """The result of a call, for the model and for the user."""

    text: str
    """Text for the model."""
    display: str = ""
    """Text for the user: a diff or a one-line summary; empty if `text` is enough."""
    ok: bool = True
    images: tuple[Image, ...] = ()
    changes: tuple[FileChange, ...] = ()
    command: str = ""
    exit_code: int | None = None
    finished: bool = False
    """The task is done: the turn ends with `text` as its answer."""
    seen: dict[str, str] = {}
    """Absolute path → content hash of each file read or written."""
    plan: tuple[PlanItem, ...] | None = None
    job: str = ""
    """Number of the background job that the command became."""
    cwd: str = ""
    """Start folder of the next command, if a command changed it."""
    blocked: str = ""
    """What the sandbox blocked, in words; empty if the command failed for another reason or not at all."""
    blocked_hosts: tuple[str, ...] = ()
    """The hosts that were blocked, if it was the network and they are known."""
    needs: Reach = "outside"
    """The reach with which the command would have worked."""
    untrusted: str = ""
    """Source of untrusted text in the result, such as a host; empty if there is none."""
    memory: tuple[MemoryChange, ...] = ()
    """Changes to the agent's memory."""


class Egress(Protocol):
    """Network access of confined commands to allowed hosts; implemented by the engine."""

    @property
    def connected(self) -> int:
        """Number of connections made to hosts so far."""

    async def open(self) -> str:
        """Return the proxy's URL for a command about to start; empty if no host is allowed."""

    def take_refused(self) -> tuple[str, ...]:
        """Return the hosts refused to commands since the last call."""


class Resources(Protocol):
    """Documents of external servers, which a prompt may name."""

    def find(self, name: str) -> tuple[str, str] | None:
        """Return server and URI for a name `SERVER:URI`; None if there is no such server."""

    async def read(self, server: str, uri: str) -> "ToolOutcome":
        """Read a document.

        Raises:
            ToolError: it cannot be read; the message says why.
        """


class Buffers(Protocol):
    """Files as open in the user's editor; implemented by a front end inside an editor."""

    async def text(self, path: str) -> str | None:
        """Return the editor's text of a file (absolute path), saved or not; None if the editor cannot tell."""

    async def show(self, path: str, text: str) -> None:
        """Send the editor the text of a file that was written, to update its buffer."""


Confine = Callable[[], Confinement | None]
Question = Callable[[str, tuple[str, ...]], Awaitable[str]]
"""Asks the user `question` with `options` and returns the answer."""

Insert = Callable[[str, Sequence[InsertedCommand], Sequence[str]], Awaitable[str]]
"""Runs the commands of a text like calls of the model, and returns the text with their output inserted. The last
argument contains permission rules that apply until the turn ends."""


async def _no_history(query: str) -> tuple[str, str]:
    return "There is no earlier conversation.", ""


class ToolContext(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Everything that a tool may access: the workspace, processes, and the session's knowledge of files and
    commands.

    Created once per session. Each call gets a copy by `for_call`, which shares everything except the last group of
    fields.
    """

    workspace: Workspace
    processes: ProcessRunner
    shell: "ShellSession"
    jobs: "Jobs"
    spill_dir: Path
    """Folder for output too long for the model; created on first use."""
    cache_dir: Path
    """Folder for derived data; may be deleted at any time."""
    seen: dict[str, str]
    """Absolute path → hash of the content known to the model."""
    known: ContentCache = msgspec.field(default_factory=ContentCache)
    redactor: "Redactor | None" = None
    """Masks secrets in what is saved on disk."""
    memory: Memory | None = None
    """Text blocks that outlast the conversation; None if there are none."""
    may_show: Callable[[str], bool] = lambda path: True
    """Returns True if content of a file (absolute path) that nobody named may appear in search results."""
    ask: Question | None = None
    """Asks the user a question; None if no user is present."""
    recall: Callable[[str], tuple[str, str] | None] = lambda call_id: None
    """Returns the full text of an earlier result or message by its id, and its source if the text is untrusted and
    not marked as such; None if there is none."""
    search_history: Callable[[str], Awaitable[tuple[str, str]]] = _no_history
    """Returns matches for a query in earlier conversation, in words, and the source of untrusted text in them."""
    is_visible: Callable[[str], bool] = lambda text: False
    """Returns True if the model still sees a text in the conversation."""
    max_tokens: Callable[[], int] = lambda: MAX_RESULT_TOKENS
    """Returns the maximum estimated tokens of a result; the runner truncates longer ones."""
    egress: Egress | None = None
    """Network access for confined commands; None if they have none."""
    resources: Resources | None = None
    """Documents of external servers; None if there are none."""
    buffers: Buffers | None = None
    """Files in the user's editor; None if there is no editor."""
    package_cache: Path | None = None
    """Cache folder for package managers in confined commands."""
    pass_env: tuple[str, ...] = ()
    """Variables that confined commands see although they look like secrets."""
    traced: Callable[[Mapping[str, str], str], dict[str, str]] | None = None
    """Returns a command's environment with trace variables, by its call id; None if the session is not traced."""
    shell_timeout_s: float = 120.0
    silent_after_s: float = 15.0
    """Seconds of silence after which the user is told and a command is suspected of waiting for input."""

    call_id: str = ""
    insert: Insert | None = None
    """Runs commands whose output is inserted into the result, such as those of a skill; None if not available."""
    emit: Callable[[str], None] = lambda text: None
    """Shows a piece of live output."""
    silent: Callable[[float], None] = lambda silent_s: None
    """Reports that the call has been silent for this many seconds."""
    confine: Confine = lambda: None
    """Returns the confinement for a command of this call; None if it is not confined."""
    leaves: bool = False
    """True if a command of this call runs outside the sandbox of earlier commands."""
    hunks: Collection[int] | None = None
    """Numbers of the approved hunks of the change, from 0; None for all."""
    places: frozenset[str] | None = None
    """The real paths for which the call was judged, and to which it is restricted; None before it was judged."""

    def for_call(self, call_id: str, **given: Any) -> "ToolContext":
        """Return a copy for one call; `given` sets fields of the last group."""
        return msgspec.structs.replace(self, call_id=call_id, **given)

    def within(self, places: frozenset[str]) -> "ToolContext":
        """Return a copy restricted to the real paths for which the call was judged."""
        return msgspec.structs.replace(self, places=places)


class Tool(Protocol):
    """A tool. `params` are always an instance of the tool's own `Params`."""

    @property
    def name(self) -> str: ...

    @property
    def Params(self) -> type[msgspec.Struct]: ...

    @property
    def editable(self) -> str:
        """The string parameter that the user may edit before the call runs; empty for none."""

    @property
    def result_kind(self) -> ResultKind:
        """Part of its results that a front end shows."""

    @property
    def label(self) -> str:
        """Display name, such as `Edit`; empty to use its name."""

    @property
    def counted(self) -> str:
        """Noun for counting its calls when several are shown as one, such as `file`; empty if they are not
        grouped."""

    def title(self, params: Any) -> str:
        """Return one line for the user: the path, pattern or command."""

    def actions(self, params: Any, context: ToolContext) -> tuple[Action, ...]:
        """Return the actions of a call.

        Raises:
            ToolError: the parameters are invalid, for example an impossible path.
        """

    async def preview(self, params: Any, context: ToolContext) -> Preview:
        """Return a preview of the change.

        Raises:
            ToolError: the call cannot be done; the message says why.
        """

    async def run(self, params: Any, context: ToolContext) -> ToolOutcome:
        """Run the call.

        Raises:
            ToolError: it could not be done, and nothing was changed; the message says why.
        """


class ForeignTool(ABC):
    """A tool whose parameters are described by an external schema."""

    @property
    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """JSON Schema of its parameters."""

    @abstractmethod
    def read_arguments(self, arguments: dict[str, Any]) -> Any:
        """Parse the parameters of a call.

        Raises:
            ToolError: they do not fit the schema.
        """


class NamesTool(ABC):
    """A tool that calls another tool named in its parameters."""

    @abstractmethod
    def meant_call(self, params: Any) -> "tuple[Tool, Any]":
        """Return the other tool and its parameters.

        Raises:
            ToolError: there is no such tool, or the parameters do not fit.
        """

    @abstractmethod
    def unknown(self, name: str) -> str:
        """Return what the model is told of a name that no tool has; empty if this tool calls none of that kind."""


class LeadsToTools(ABC):
    """A tool through which others that are not in the list can be found or called."""

    leads_to: str
    """Beginning of the names of these tools."""

    @abstractmethod
    def narrowed(self, allows: Callable[[str], bool]) -> "Tool":
        """Return this tool for a session that may only use the tools whose names `allows` accepts."""


class NeedsPreparation(ABC):
    """A tool that must query an external system before a call can be judged."""

    @abstractmethod
    async def make_ready(self, context: ToolContext) -> None:
        """Bring the tool up to date.

        Raises:
            ToolError: it cannot be used; the message says why.
        """


class BasicTool(ABC):
    """Defaults for most tools: no editable parameter, no side effects, and the title as preview."""

    editable = ""
    result_kind: ResultKind = "text"
    label = ""
    counted = ""

    @abstractmethod
    def title(self, params: Any) -> str:
        """Return the call in one line, as in `Tool.title`."""

    def actions(self, params: Any, context: ToolContext) -> tuple[Action, ...]:
        return ()

    async def preview(self, params: Any, context: ToolContext) -> Preview:
        return Preview(self.title(params))


def locate(context: ToolContext, path: str, *, existing: bool = False) -> Resolved:
    """Return the real place of a path written by the model. Accessing it by its real path follows no link.

    Raises:
        ToolError: the path is invalid; or it must be `existing` and only exists relative to the shell's folder; or
            it now resolves to a place other than those for which the call was judged.
    """
    return check_judged_place(context, resolve_path(context, path, existing=existing))


def check_judged_place(context: ToolContext, place: Resolved) -> Resolved:
    """Return the place if it is one of those for which the call was judged.

    Raises:
        ToolError: it is not, because a link was put in its path.
    """
    if context.places is not None and place.real not in context.places:
        raise ToolError(
            f"{place.shown} points somewhere else now than when the call was approved; nothing was done. Check it"
            " again."
        )
    return place


def resolve_path(context: ToolContext, path: str, *, existing: bool = False) -> Resolved:
    """Return the real place of a path like `locate`, but before the final place is determined.

    Raises:
        ToolError: as in `locate`, except for the check of judged places.
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
    """Return the tool's description for the model: its own attribute, or `<name>.md` next to its module."""
    if isinstance(own := getattr(tool, "description", None), str):
        return own.strip()
    module = Path(sys.modules[type(tool).__module__].__file__ or "")
    return module.with_name(f"{tool.name}.md").read_text(encoding="utf-8").strip()
