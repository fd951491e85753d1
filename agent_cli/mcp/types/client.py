"""What a client of one server can do, and what a server may ask of it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from .offer import CallOutcome, Offer


class ServerError(Exception):
    """A server cannot be used, or refused a request; the text says which and why."""


class ServerGone(ServerError):
    """The connection ended before the answer; the text holds the server's last words."""


class LoginNeeded(ServerError):
    """The server wants a login first."""


class FormField(msgspec.Struct, frozen=True):
    """One value that a server asks the user for."""

    name: str
    title: str = ""
    description: str = ""
    kind: Literal["text", "number", "integer", "boolean", "choice", "choices"] = "text"
    options: tuple[str, ...] = ()
    required: bool = False
    default: str = ""


class Elicitation(msgspec.Struct, frozen=True):
    """A question of a server to the user: a form, or an address to open."""

    message: str
    fields: tuple[FormField, ...] = ()
    url: str = ""


class ElicitationAnswer(msgspec.Struct, frozen=True):
    """The user's answer."""

    action: Literal["accept", "decline", "cancel"]
    values: dict[str, Any] = {}


class SamplingRequest(msgspec.Struct, frozen=True):
    """A request of a server to the model."""

    system: str
    messages: tuple[tuple[Literal["user", "assistant"], str], ...]
    max_tokens: int


class SamplingAnswer(msgspec.Struct, frozen=True):
    """What the model said."""

    text: str
    model: str
    stop_reason: str = "endTurn"


class Handlers(Protocol):
    """What a server may ask and tell outside the answer to a request."""

    async def elicit(self, asked: Elicitation) -> ElicitationAnswer: ...

    async def sample(self, asked: SamplingRequest) -> SamplingAnswer:
        """Ask the model.

        Raises:
            ServerError: it is not allowed, with the reason for the server.
        """
        ...

    def roots(self) -> tuple[str, ...]:
        """Return the folders of the workspace, as absolute paths."""
        ...

    def log(self, text: str) -> None:
        """Take a line that the server wrote to stderr or logged."""
        ...

    def changed(self) -> None:
        """Note that the server offers other tools, prompts or resources than before."""
        ...


class Client(Protocol):
    """A connection to one server, negotiated and ready."""

    offer: Offer
    """What it offered when it connected."""
    closed: "asyncio.Future[str]"
    """Done once the connection has ended, with the reason in words."""

    async def list_offer(self) -> Offer:
        """Fetch anew what the server offers.

        Raises:
            ServerError: it does not answer as it should.
        """
        ...

    async def call(
        self, tool: str, arguments: Mapping[str, Any], on_progress: Callable[[str], None] = lambda text: None
    ) -> CallOutcome:
        """Call a tool. Cancelling the task cancels the call at the server.

        Raises:
            ServerGone: the connection ended first.
            ServerError: the server refused it, or took too long.
        """
        ...

    async def read_resource(self, uri: str) -> CallOutcome:
        """Read a document; errors as for `call`."""
        ...

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> CallOutcome:
        """Fetch a prompt as text; errors as for `call`."""
        ...

    async def ping(self) -> None:
        """Make sure that it answers; errors as for `call`."""
        ...

    async def aclose(self) -> None:
        """End the connection, and a server that we started: its input is closed, then TERM, then KILL. At most
        2 s."""
        ...
