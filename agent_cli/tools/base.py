"""What a tool is: a declaration and one coroutine.

A tool never asks and never decides: it says which `Action`s a call means, can show what it would do, and
does it. `core.tool_runner` owns the road between those three. Parameters are a frozen `msgspec.Struct`,
so that arguments are validated with a path in the message and the JSON Schema comes for free; the text
the model reads lies beside the tool as `<name>.md`.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from ..protocol.actions import Action
from ..protocol.messages import FileChange, Image, PlanItem
from ..sandbox.process import ProcessRunner
from ..workspace.paths import PathError, Resolved, Workspace


class ToolError(Exception):
    """The call cannot be done; the text tells the model why and what to do instead."""


class UnknownTool(ToolError):
    """A call of a tool that is not offered."""


class Preview(msgspec.Struct, frozen=True):
    """What a person sees before allowing a call."""

    text: str
    kind: Literal["command", "diff", "text"] = "text"


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
    seen: dict[str, str] = {}
    """Absolute path → content hash of each file read or written."""
    plan: tuple[PlanItem, ...] | None = None


Question = Callable[[str, tuple[str, ...]], Awaitable[str]]
"""Asks the user `question` with `options`; gives their words."""


class ToolContext:
    """All that tools may reach: the workspace, processes, and this session's memory of files.

    One per session; `for_call` gives a view whose `emit` belongs to one call.
    """

    def __init__(
        self,
        workspace: Workspace,
        processes: ProcessRunner,
        spill_dir: Path,
        *,
        shell_timeout_s: float = 120.0,
        shell_env: dict[str, str] | None = None,
        ask: Question | None = None,
        seen: dict[str, str] | None = None,
        may_show: Callable[[str], bool] = lambda path: True,
        emit: Callable[[str], None] = lambda text: None,
        call_id: str = "",
    ) -> None:
        self.workspace = workspace
        self.processes = processes
        self.spill_dir = spill_dir
        """Where output too long for the model is kept whole; created when first needed."""
        self.shell_timeout_s = shell_timeout_s
        self.shell_env = shell_env or {}
        self.ask = ask
        self.seen: dict[str, str] = {} if seen is None else seen
        """Absolute path → hash of the content the model knows."""
        self.may_show = may_show
        """Whether content of a file (absolute path) that nobody named may come up in a search."""
        self.emit = emit
        """Shows a piece of live output."""
        self.call_id = call_id

    def for_call(self, call_id: str, emit: Callable[[str], None]) -> "ToolContext":
        """The same context, speaking for one call; `seen` is shared."""
        return ToolContext(
            self.workspace, self.processes, self.spill_dir,
            shell_timeout_s=self.shell_timeout_s, shell_env=self.shell_env, ask=self.ask,
            seen=self.seen, may_show=self.may_show, emit=emit, call_id=call_id,
        )  # fmt: skip


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

    def title(self, params: Any) -> str:
        """One line for the user: the path, pattern or command."""
        ...

    def actions(self, params: Any, context: ToolContext) -> tuple[Action, ...]:
        """What running would do.

        Raises:
            ToolError: the parameters make no sense (a path that cannot be, for example).
        """
        ...

    async def preview(self, params: Any, context: ToolContext) -> Preview:
        """What would change.

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


def locate(context: ToolContext, path: str) -> Resolved:
    """The real place of a path the model wrote.

    Raises:
        ToolError: it cannot be a path.
    """
    try:
        return context.workspace.resolve(path)
    except PathError as error:
        raise ToolError(str(error)) from error


def describe(tool: Tool) -> str:
    """The tool's text for the model: `<name>.md` in this folder."""
    return (Path(__file__).parent / f"{tool.name}.md").read_text(encoding="utf-8").strip()
