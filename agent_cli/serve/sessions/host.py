"""The interface that opens, finds and deletes sessions, implemented by the composition root."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from agent_cli.protocol.actions import Mode
from agent_cli.protocol.client import Client


class HostError(Exception):
    """A session cannot be opened, found or deleted; the text says why and what to do."""


class LoginNeeded(HostError):
    """No model can be used before the user has set a key or started a server."""


class Buffers(Protocol):
    """Files in the user's editor, perhaps unsaved."""

    async def text(self, path: str) -> str | None:
        """Return the text of a file; None if the editor does not provide it."""

    async def show(self, path: str, text: str) -> None:
        """Send the editor the text of a file that was written."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters for opening a session."""

    cwd: str
    """Absolute path of the working directory; empty for that of the saved session."""
    session_id: str = ""
    """A saved session to resume; empty for a new one."""
    fork: bool = False
    """Continue in a copy."""
    model: str | None = None
    mode: Mode | None = None
    effort: str | None = None
    folders: tuple[str, ...] = ()
    """Absolute paths of additional folders of the workspace."""
    mcp_servers: dict[str, dict[str, Any]] = {}
    """Additional MCP servers by name, in the format of the configuration."""
    save: bool = True
    buffers: Buffers | None = None
    """Files in the client's editor; None if it offers none."""


class SavedSession(msgspec.Struct, frozen=True):
    """A saved session."""

    session_id: str
    cwd: str
    title: str
    updated: float
    """Seconds since the epoch."""
    turns: int = 0
    cost_usd: float | None = None


class OpenedSession(Protocol):
    """A session with a running engine."""

    @property
    def client(self) -> Client:
        """Queues of submissions and events."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on the session."""

    async def aclose(self) -> None:
        """Stop the work of the session, save and close it."""


class Host(Protocol):
    """Opens sessions of this program."""

    async def open(self, opening: Opening) -> OpenedSession:
        """Open a session and run its engine.

        Raises:
            HostError: it cannot be opened, or no model can be used.
        """

    def find(self, session_id: str) -> str:
        """Return the full id of a saved session, given its id, a prefix of the id, or its name.

        Raises:
            HostError: there is none, or more than one.
        """

    def sessions(self, cwd: str = "") -> Sequence[SavedSession]:
        """Return the saved sessions, newest first: of a folder, or all.

        Raises:
            HostError: they cannot be read.
        """

    def delete(self, session_id: str) -> None:
        """Delete a saved session with the files beside it.

        Raises:
            HostError: there is none, it is open, or it cannot be deleted.
        """
