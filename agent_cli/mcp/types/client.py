"""Interface of a client for one server, and of the handlers for the server's own requests."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from .offer import CallOutcome, Offer


class ServerError(Exception):
    """A server cannot be used, or refused a request; the text says which and why."""


class Unanswered(ServerError):
    """The answer did not come; the server may have done what was requested."""


class ServerGone(ServerError):
    """The connection ended before the answer; the text holds the server's last log lines."""


class SessionEnded(ServerGone):
    """The server has forgotten the session, so it did not take the request; a new session may."""


class LoginNeeded(ServerError):
    """The server requires a login first."""


class FormField(msgspec.Struct, frozen=True):
    """A value that a server asks the user for."""

    name: str
    title: str = ""
    description: str = ""
    kind: Literal["text", "number", "integer", "boolean", "choice", "choices"] = "text"
    options: tuple[str, ...] = ()
    required: bool = False
    default: str = ""


class Elicitation(msgspec.Struct, frozen=True):
    """A server's question to the user: a form, or an address to open."""

    message: str
    fields: tuple[FormField, ...] = ()
    url: str = ""


class ElicitationAnswer(msgspec.Struct, frozen=True):
    """The user's answer."""

    action: Literal["accept", "decline", "cancel"]
    values: dict[str, Any] = {}


class SamplingRequest(msgspec.Struct, frozen=True):
    """A server's request to the model."""

    system: str
    messages: tuple[tuple[Literal["user", "assistant"], str], ...]
    max_tokens: int


class SamplingAnswer(msgspec.Struct, frozen=True):
    """The model's answer."""

    text: str
    model: str
    stop_reason: str = "endTurn"


class Handlers(Protocol):
    """Handlers of requests and notifications from a server."""

    async def elicit(self, asked: Elicitation) -> ElicitationAnswer: ...

    async def sample(self, asked: SamplingRequest) -> SamplingAnswer:
        """Ask the model.

        Raises:
            ServerError: it is not allowed, with the reason for the server.
        """

    def roots(self) -> tuple[str, ...]:
        """Return the folders of the workspace as absolute paths."""

    def log(self, text: str) -> None:
        """Receive text that the server wrote to stderr or logged."""

    def changed(self) -> None:
        """Receive the notice that the server's tools, prompts or resources have changed."""


class Client(Protocol):
    """A connection to one server, negotiated and ready."""

    offer: Offer
    """The offer at the time of connecting."""
    closed: "asyncio.Future[str]"
    """Resolved when the connection has ended, with the reason in words."""

    async def list_offer(self) -> Offer:
        """Fetch the server's current offer.

        Raises:
            ServerError: it does not answer correctly.
        """

    async def call(
        self, tool: str, arguments: Mapping[str, Any], on_progress: Callable[[str], None] = lambda text: None
    ) -> CallOutcome:
        """Call a tool. Cancelling the task cancels the call at the server.

        Raises:
            ServerGone: the connection ended first.
            ServerError: the server refused it, or took too long.
        """

    async def read_resource(self, uri: str) -> CallOutcome:
        """Read a document; raises as `call`."""

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> CallOutcome:
        """Fetch a prompt as text; raises as `call`."""

    async def aclose(self) -> None:
        """End the connection, and a server that we started: close its input, then SIGTERM, then SIGKILL. At most 2
        s."""
