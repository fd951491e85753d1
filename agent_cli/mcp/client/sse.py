"""The transport of 2024: one stream of events from the server, which first names the address for messages to it.
The SDK's own ends the connection at a message of more than 1 MB, such as a screenshot."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urljoin

import httpx2

from ..types.client import ServerError
from ..types.definition import ServerDefinition
from .http import has_credentials, http_client, media_type
from .http_failures import HttpFailure, of_status
from .process import MAX_MESSAGE_BYTES
from .session import over_channel

_HEADERS = {"accept": "text/event-stream", "cache-control": "no-store"}
_MOST_REDIRECTS = 5
_SHOWN_CHARS = 200


@contextlib.asynccontextmanager
async def over_sse(
    definition: ServerDefinition,
    auth: httpx2.Auth | None,
    log: Callable[[str], None],
    on_failure: Callable[[HttpFailure], None],
) -> AsyncIterator[Any]:
    """Carry the SDK's messages over the transport of 2024.

    Args:
        definition: the server.
        auth: adds the stored login to requests.
        log: called for events that are no messages.
        on_failure: called for a message that could not be delivered or read.
    """
    async with http_client(definition, auth, on_failure) as client:
        channel = _EventChannel(client, definition, log, on_failure)
        try:
            await channel.open()
            async with over_channel(channel, on_failure) as streams:
                yield streams
        finally:
            await channel.aclose()


class _EventChannel:
    """A connection to a server; implements `MessageChannel`."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        definition: ServerDefinition,
        log: Callable[[str], None],
        on_failure: Callable[[HttpFailure], None],
    ) -> None:
        self._client = client
        self._definition = definition
        self._log = log
        self._on_failure = on_failure
        self._response: httpx2.Response | None = None
        self._events: AsyncIterator[httpx2.ServerSentEvent]
        self._address = ""

    async def open(self) -> None:
        """Connect, and wait for the address for messages.

        Raises:
            ServerError: the server refuses, or names no address of its own.
            httpx2.HTTPError: it cannot be reached.
        """
        name, url = self._definition.name, self._definition.url
        response = self._response = await self._stream()
        if (failure := self._failure(response)) is not None:
            raise failure.as_error(name, url)
        self._events = aiter(httpx2.EventSource(response, max_event_size=MAX_MESSAGE_BYTES))
        async for event in self._events:
            if event.event == "endpoint":
                self._address = urljoin(str(response.url), event.data)
                if not _is_same_server(response.url, httpx2.URL(self._address)):
                    raise HttpFailure("refused", "names another server for messages").as_error(name, url)
                return
        raise HttpFailure("gone", "closed the connection before it named an address").as_error(name, url)

    async def _stream(self) -> httpx2.Response:
        """Return the response, which is not read yet. Redirects to other servers are not followed: the request has
        the headers of this one."""
        request = self._client.build_request("GET", self._definition.url, headers=_HEADERS)
        for _ in range(_MOST_REDIRECTS):
            response = await self._client.send(request, stream=True)
            following = response.next_request
            if following is None or not _is_same_server(request.url, following.url):
                break
            await response.aclose()
            request = following
        return response

    def _failure(self, response: httpx2.Response) -> HttpFailure | None:
        owns = has_credentials(self._definition)
        if (failure := of_status(response, has_own_credentials=owns, in_session=False)) is not None:
            return failure
        if response.status_code == 200 and media_type(response) == "text/event-stream":
            return None
        return HttpFailure("refused", f"answered with HTTP {response.status_code} and no stream of events")

    async def lines(self) -> AsyncIterator[bytes]:
        try:
            async for event in self._events:
                if event.event == "message" and event.data:
                    yield event.data.encode("utf-8", "replace")
        except httpx2.SSEError:
            most = f"sent an answer of more than {MAX_MESSAGE_BYTES // 1_000_000} MB"
            self._on_failure(HttpFailure("refused", most))
        except (httpx2.HTTPError, httpx2.StreamError):
            return  # the end of the connection, like that of the stream

    def reject(self, line: bytes) -> None:
        self._log(f"(not a message) {line[:_SHOWN_CHARS].decode('utf-8', 'replace')}")

    async def send(self, message: bytes) -> None:
        headers = {"content-type": "application/json"}
        try:
            response = await self._client.post(self._address, content=message, headers=headers)
        except httpx2.StreamError:  # the server has taken the message; the rest of its answer is not needed
            return
        if not response.is_success:  # what it says has been reported by the transport
            raise ServerError(f"answered a message with HTTP {response.status_code}")

    async def aclose(self) -> None:
        if self._response is not None:
            await self._response.aclose()


def _is_same_server(known: httpx2.URL, other: httpx2.URL) -> bool:
    """Return True if a URL leads to the same server, or to its encrypted port."""
    if known.host != other.host:
        return False
    is_upgrade = (known.scheme, other.scheme) == ("http", "https") and known.port is other.port is None
    return is_upgrade or (known.scheme, known.port) == (other.scheme, other.port)
