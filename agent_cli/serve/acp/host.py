"""What a session for an editor needs beside the engine: given by the composition root."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from agent_cli.protocol.events import AnyEvent
from agent_cli.protocol.messages import Image
from agent_cli.protocol.operations import Operation

from ..sessions.host import Host, OpenedSession


class SlashCommand(msgspec.Struct, frozen=True):
    """A command that the user can call as `/name`."""

    name: str
    description: str
    hint: str = ""
    """What to write behind its name; empty for nothing."""


class CommandFront(Protocol):
    """What a slash command works with."""

    async def submit(self, operation: Operation) -> None:
        """Hand an operation to the engine."""
        ...

    def say(self, text: str) -> None:
        """Show a text."""
        ...

    async def pick(self, title: str, choices: Sequence[tuple[str, str]]) -> str:
        """Have the user pick one of values with labels; returns the value, empty for none."""
        ...


class EditorServices(Protocol):
    """Slash commands, models and wordings of one session."""

    def commands(self) -> Sequence[SlashCommand]:
        """Return the commands; reads files, so that it is asked in a thread."""
        ...

    async def run_command(self, line: str, front: CommandFront) -> bool:
        """Carry out a line that calls a command or a skill; False for any other line."""
        ...

    def models(self) -> Sequence[str]:
        """Return the models that can be chosen, the usual ones first, without asking a server."""
        ...

    @property
    def efforts(self) -> Sequence[str]:
        """The levels of reasoning effort."""
        ...

    def worded(self, event: AnyEvent) -> AnyEvent:
        """Return an event whose error, if it has one, says what to do next."""
        ...

    def described(self, event: AnyEvent) -> str:
        """Return what an event says, in words; empty for nothing."""
        ...


class EditorHost(Host, Protocol):
    """Opens sessions for an editor."""

    def services(self, opened: OpenedSession) -> EditorServices:
        """Return what goes with a session that this host has opened."""
        ...

    def folder_of(self, session_id: str) -> str:
        """Return the folder of a saved session, which is named by its whole id.

        Raises:
            HostError: there is none.
        """
        ...

    def picture(self, data: bytes) -> Image:
        """Return a picture, made fit for a model; meant for a thread.

        Raises:
            HostError: it is none.
        """
        ...

    async def check_login(self) -> None:
        """Return where a model can be used.

        Raises:
            LoginNeeded: none can, and what to do.
        """
        ...
