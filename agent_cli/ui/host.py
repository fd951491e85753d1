"""What the composition root offers a front end beyond the engine: lists to show, the user's own commands."""

from collections.abc import Callable
from typing import Protocol

import msgspec

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

    def permissions(self) -> tuple[RuleLine, ...]:
        """The rules in force, in the order they are tried."""
        ...

    def models(self, query: str) -> tuple[str, ...]:
        """Known models whose name contains `query`."""
        ...

    async def run_command(self, command: str, emit: Callable[[str], None]) -> int:
        """Run the user's own command line; output goes to `emit` in pieces. Returns its exit code."""
        ...
