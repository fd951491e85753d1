"""What the composition root offers a front end beyond the engine: lists to show, the user's own commands."""

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from ..protocol.messages import Image

SHUTDOWN_S = 8.0
"""How long a front end that is done waits for the engine's end and its last words."""


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


class Host(Protocol):
    """Services behind slash commands and `!command`."""

    def sessions(self) -> tuple[SessionLine, ...]:
        """Saved sessions of this directory, newest first."""
        ...

    async def search(self, query: str) -> tuple[HitLine, ...]:
        """What was said of a query in all sessions, the best first."""
        ...

    async def export(self, argument: str) -> str:
        """Write this session to a file, named or not; gives what was done, or why not, in words."""
        ...

    def memory(self) -> tuple[MemoryLine, ...]:
        """The blocks of the agent's memory."""
        ...

    async def picture(self) -> Image | str:
        """The picture in the clipboard, or why there is none."""
        ...

    def paths(self, root: str) -> Iterable[str]:
        """Files and folders below `root` to offer for `@`; may take a moment, and is asked for in a thread."""
        ...

    def init_prompt(self, focus: str) -> str:
        """What is asked of the model to write the project's instructions file."""
        ...

    def permissions(self) -> tuple[RuleLine, ...]:
        """The rules in force, in the order they are tried."""
        ...

    def models(self, query: str) -> tuple[str, ...]:
        """Known models whose name contains `query`."""
        ...

    async def run_command(self, command: str, emit: Callable[[str], None]) -> int:
        """Run the user's own command line; output goes to `emit` in pieces. Returns its exit code."""
        ...
