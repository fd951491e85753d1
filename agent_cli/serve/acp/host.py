"""Interfaces that an editor's session needs beyond the engine, implemented by the composition root."""

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
    """Description of its arguments; empty if it takes none."""


class CommandFront(Protocol):
    """The context in which a slash command runs."""

    async def submit(self, operation: Operation) -> None:
        """Submit an operation to the engine."""

    def say(self, text: str) -> None:
        """Show a text."""

    async def pick(self, title: str, choices: Sequence[tuple[str, str]]) -> str:
        """Have the user pick one of several labelled values; return the value, empty for none."""


class EditorServices(Protocol):
    """Slash commands, models and wordings of a session."""

    def commands(self) -> Sequence[SlashCommand]:
        """Return the commands. Reads files, so it is called in a thread."""

    async def run_command(self, line: str, front: CommandFront) -> bool:
        """Run a line that calls a command or a skill; return False for any other line."""

    def models(self) -> Sequence[str]:
        """Return the models that can be chosen, usual ones first, without asking a server."""

    @property
    def efforts(self) -> Sequence[str]:
        """The levels of reasoning effort."""

    def with_advice(self, event: AnyEvent) -> AnyEvent:
        """Return an event whose error, if any, includes advice."""

    def describe_event(self, event: AnyEvent) -> str:
        """Return a description of an event; empty for none."""


class EditorHost(Host, Protocol):
    """Opens sessions for an editor."""

    def services(self, opened: OpenedSession) -> EditorServices:
        """Return the services for a session opened by this host."""

    def folder_of(self, session_id: str) -> str:
        """Return the folder of a saved session, given its full id.

        Raises:
            HostError: there is no such session.
        """

    def picture(self, data: bytes) -> Image:
        """Return an image fitted for a model; call in a thread.

        Raises:
            HostError: the data is not an image.
        """

    async def check_login(self) -> None:
        """Check that a model can be used.

        Raises:
            LoginNeeded: no model can be used; the text says what to do.
        """
