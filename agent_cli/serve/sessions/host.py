"""What opens sessions, and finds and deletes saved ones: given by the composition root."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from agent_cli.protocol.actions import Mode
from agent_cli.protocol.client import Client


class HostError(Exception):
    """A session cannot be opened, found or deleted; the text says what is wrong and what to do."""


class LoginNeeded(HostError):
    """No model can be used before the user has set a key or started a server."""


class Buffers(Protocol):
    """Files as the user's editor has them, perhaps unsaved."""

    async def text(self, path: str) -> str | None:
        """Return the text of a file; None where the editor cannot say."""
        ...

    async def show(self, path: str, text: str) -> None:
        """Give the editor the text of a file that was written."""
        ...


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """Which session to open, and how."""

    cwd: str
    """The absolute path of the folder to work in; empty for that of the saved session."""
    session_id: str = ""
    """A saved session to go on with; empty for a new one."""
    fork: bool = False
    """Go on with a copy."""
    model: str | None = None
    mode: Mode | None = None
    effort: str | None = None
    folders: tuple[str, ...] = ()
    """Absolute paths of further folders to work in."""
    mcp_servers: dict[str, dict[str, Any]] = {}
    """Further MCP servers by name, in the shape of the configuration."""
    save: bool = True
    buffers: Buffers | None = None
    """Files in the client's editor; None: it has none."""


class SavedSession(msgspec.Struct, frozen=True):
    """A session on disk."""

    session_id: str
    cwd: str
    title: str
    updated: float
    """Seconds since the epoch."""
    turns: int = 0
    cost_usd: float | None = None


class OpenedSession(Protocol):
    """A session whose engine runs."""

    @property
    def client(self) -> Client:
        """Submissions in, events out."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to know about it."""
        ...

    async def aclose(self) -> None:
        """Stop what runs, save and end it."""
        ...


class Host(Protocol):
    """Opens sessions of this program."""

    async def open(self, opening: Opening) -> OpenedSession:
        """Open a session and run its engine.

        Raises:
            HostError: it cannot be opened, or no model can be used.
        """
        ...

    def find(self, session_id: str) -> str:
        """Return the whole id of a saved session: `session_id` is that, its beginning, or its name.

        Raises:
            HostError: there is none, or more than one.
        """
        ...

    def sessions(self, cwd: str = "") -> Sequence[SavedSession]:
        """Return the saved sessions, newest first: of a folder, or all.

        Raises:
            HostError: they cannot be read.
        """
        ...

    def delete(self, session_id: str) -> None:
        """Delete a saved session with what lies beside it.

        Raises:
            HostError: there is none, it is open, or it cannot be deleted.
        """
        ...
