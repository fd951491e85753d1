"""The side effects a tool call would have, and the verdict of the policy on each.

A tool declares its actions before it runs; `policy.authorize` decides on them. Paths here are canonical: absolute,
with symlinks resolved. This module does not access the file system.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

Mode = Literal["plan", "ask", "auto-edit", "yolo"]
SandboxLevel = Literal["read-only", "workspace-write", "off"]
_WIDTH: dict[Mode, int] = {"plan": 0, "ask": 1, "auto-edit": 2, "yolo": 3}


def narrower(first: Mode, second: Mode | None) -> Mode:
    """Return the stricter of two modes: the one that allows less without asking."""
    return first if second is None or _WIDTH[first] <= _WIDTH[second] else second


class ReadPath(msgspec.Struct, frozen=True):
    """Read a file or list a directory."""

    path: str
    """Absolute real path."""
    shown: str
    """The path as the model or the user wrote it."""


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
    """Variables that earlier commands of the session have changed and that programs or the shell read."""
    shadowed: tuple[str, ...] = ()
    """Programs whose names may resolve to different files since PATH was changed; `*` means all."""
    functions: tuple[str, ...] = ()
    """Command names that earlier commands have defined as shell functions; `*` means all."""
    local: tuple[str, ...] = ()
    """Programs that the PATH finds in the workspace, where the agent may have written them; `*` means all."""


class SendInput(msgspec.Struct, frozen=True):
    """Write to the standard input of a running command."""

    command: str
    text: str


class StopCommand(msgspec.Struct, frozen=True):
    """Stop a command that the agent started."""

    command: str


class Fetch(msgspec.Struct, frozen=True):
    """Connect to a host on the network."""

    url: str
    host: str
    """As `canonical_host` returns it."""


def canonical_host(written: str) -> str:
    """Return a host in the one form that rules and connections compare: in ASCII (IDNA, RFC 3490) and lower case,
    without brackets and a trailing dot. An IPv4 address in an IPv6 address is that IPv4 address.

    Raises:
        ValueError: it is not a host.
    """
    host = written.removeprefix("[").removesuffix("]")
    if not host.isascii():  # the codec is slow to load
        host = host.encode("idna").decode("ascii")
    host = host.removesuffix(".").lower()
    if host and not all(0 < len(label) < 64 for label in host.split(".")):
        raise ValueError("a part of its name is empty or too long")
    if ":" not in host:
        return host
    from ipaddress import IPv6Address

    address = IPv6Address(host)
    return str(address.ipv4_mapped or address)


class WriteMemory(msgspec.Struct, frozen=True):
    """Change a block of the agent's memory."""

    block: str
    """Label of the block."""
    scope: Literal["user", "project", "notes"]
    """Conversations that receive the block from now on: all of the user's, those in this project, or only this
    one."""


class CallExternal(msgspec.Struct, frozen=True):
    """Call a tool of an MCP server, or a tool defined by the project."""

    server: str
    tool: str
    changed: str = ""
    """How the tool's definition differs from the approved one, in words; empty when unchanged."""
    says_read_only: bool = False
    """The server declares the tool read-only. Such a call may run in parallel with others but gets no further
    rights."""

    @property
    def source(self) -> str:
        """Source named in the mark around the tool's results, which are untrusted text."""
        return f"{EXTERNAL_SOURCE}{self.server}/{self.tool}"


EXTERNAL_SOURCE = "the external tool "
"""Prefix of the source of untrusted text, before the names of server and tool."""


Action = ReadPath | WritePath | RunCommand | SendInput | StopCommand | Fetch | WriteMemory | CallExternal


Reach = Literal["inside", "network", "outside"]
"""How far a command may reach: the sandbox, the sandbox with network access, or the whole machine."""


class Allow(msgspec.Struct, frozen=True):
    """The action may proceed. `rule` names the deciding rule and its source, or the mode."""

    rule: str
    reach: Reach = "inside"
    by_mode: bool = False
    """The mode decided, not a rule: another mode might decide otherwise."""


class Ask(msgspec.Struct, frozen=True):
    """The user must decide; where nobody can answer, the action is denied."""

    rule: str
    reason: str
    grant: str = ""
    """The narrowest rule that would allow this action next time, such as `shell(npm run *)`, or several, separated
    by semicolons; empty when none may be saved."""
    reach: Reach = "inside"
    """The reach that an approval would give the command."""
    by_mode: bool = False


class Deny(msgspec.Struct, frozen=True):
    """The action is forbidden. No grant lifts the denial, and no mode does unless the mode itself decided."""

    rule: str
    reason: str
    by_mode: bool = False


Verdict = Allow | Ask | Deny


_REACHES: tuple[Reach, ...] = ("inside", "network", "outside")
"""From the narrowest to the widest."""


def widest(reaches: Iterable[Reach]) -> Reach:
    """Return the widest of some reaches; `inside` if there are none."""
    return max(reaches, key=_REACHES.index, default="inside")


def narrowest(reaches: Iterable[Reach]) -> Reach:
    """Return the narrowest of some reaches; `outside` if there are none."""
    return min(reaches, key=_REACHES.index, default="outside")


def exceeds(need: Reach, trusted: Reach) -> bool:
    """Return True if `need` is wider than `trusted`."""
    return _REACHES.index(need) > _REACHES.index(trusted)
