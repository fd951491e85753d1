"""What a tool call would do to the world, as facts, and what the policy says to it.

A tool declares its actions before it runs; `policy.authorize` judges them. Paths are canonical here:
absolute, symlinks resolved. Nothing in this module touches the file system.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

Mode = Literal["plan", "ask", "auto-edit", "yolo"]
SandboxLevel = Literal["read-only", "workspace-write", "off"]
_WIDTH: dict[Mode, int] = {"plan": 0, "ask": 1, "auto-edit": 2, "yolo": 3}


def narrower(first: Mode, second: Mode | None) -> Mode:
    """Return the mode that allows less without a question."""
    return first if second is None or _WIDTH[first] <= _WIDTH[second] else second


class ReadPath(msgspec.Struct, frozen=True):
    """Read a file or list a directory."""

    path: str
    """Absolute real path."""
    shown: str
    """As the model or the user wrote it."""


class WritePath(msgspec.Struct, frozen=True):
    """Create, change or delete a file."""

    path: str
    shown: str


class RunCommand(msgspec.Struct, frozen=True):
    """Run a shell command line."""

    command: str
    cwd: str
    """Absolute real path."""
    altered: tuple[str, ...] = ()
    """Variables that earlier commands of the session have changed and that programs or the shell heed."""
    shadowed: tuple[str, ...] = ()
    """Programs whose names may mean others since the PATH was changed; `*` stands for all."""
    functions: tuple[str, ...] = ()
    """Names that earlier commands have made functions of; `*` stands for all."""


class SendInput(msgspec.Struct, frozen=True):
    """Write to the standard input of a running command."""

    command: str
    text: str


class StopCommand(msgspec.Struct, frozen=True):
    """End a command that the agent itself has started."""

    command: str


class Fetch(msgspec.Struct, frozen=True):
    """Talk to a host on the network."""

    url: str
    host: str


class WriteMemory(msgspec.Struct, frozen=True):
    """Change a block of the agent's memory."""

    block: str
    """Its label."""
    scope: Literal["user", "project", "notes"]
    """Who is given it from now on: every conversation of the user, those in this project, or this one alone."""


class CallExternal(msgspec.Struct, frozen=True):
    """Call a tool of an MCP server, or of a project."""

    server: str
    tool: str
    changed: str = ""
    """How its definition differs from the one that was approved, in words; empty when it does not."""
    says_read_only: bool = False
    """Its server says that a call changes nothing: it may run beside others, and is allowed no more than any."""

    @property
    def source(self) -> str:
        """What its results are marked with as untrusted text."""
        return f"{EXTERNAL_SOURCE}{self.server}/{self.tool}"


EXTERNAL_SOURCE = "the external tool "
"""Before the server and tool that untrusted text came from."""


Action = ReadPath | WritePath | RunCommand | SendInput | StopCommand | Fetch | WriteMemory | CallExternal


Reach = Literal["inside", "network", "outside"]
"""What a command gets of the machine once it may run: the sandbox, the sandbox with the network, or everything."""


class Allow(msgspec.Struct, frozen=True):
    """Go ahead. `rule` names what decided: a rule with its place, or a mode."""

    rule: str
    reach: Reach = "inside"
    by_mode: bool = False
    """The mode decided, no rule: another mode would lift it."""


class Ask(msgspec.Struct, frozen=True):
    """A person must decide; where none can, this is a denial."""

    rule: str
    reason: str
    grant: str = ""
    """The narrowest rule that would allow this next time, such as `shell(npm run *)`. Empty: none may."""
    reach: Reach = "inside"
    """What it is asked for: a yes gives the command this much."""
    by_mode: bool = False


class Deny(msgspec.Struct, frozen=True):
    """Never. No grant lifts it, and no mode unless the mode itself decided."""

    rule: str
    reason: str
    by_mode: bool = False


Verdict = Allow | Ask | Deny


_REACHES: tuple[Reach, ...] = ("inside", "network", "outside")
"""From the least to the most."""


def widest(reaches: Iterable[Reach]) -> Reach:
    """Return the most that any of them is; `inside` for none."""
    return max(reaches, key=_REACHES.index, default="inside")


def narrowest(reaches: Iterable[Reach]) -> Reach:
    """Return the least that any of them is; `outside` for none."""
    return min(reaches, key=_REACHES.index, default="outside")


def exceeds(need: Reach, trusted: Reach) -> bool:
    """Return whether something would get more than it is trusted with."""
    return _REACHES.index(need) > _REACHES.index(trusted)
