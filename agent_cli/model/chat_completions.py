"""The client for Chat Completions: most hosted providers and every local server speak it."""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from .. import __version__
from .base import ModelError, ModelEvent, ModelInfo, ModelRequest
from .chat_request import Json, chat_body, encode
from .chat_stream import ChatStream
from .classify import classify, request_id
from .provider_table import Route

if TYPE_CHECKING:
    from .http import Connection, Response

_TAIL_S = 5.0
"""How long to wait for the usage once the answer is over."""
_CLOSE_S = 0.2
"""How long to wait for the end of the body once the server said that nothing follows."""
_REJECTED = re.compile(r"support|unrecogni[sz]ed|unknown|unexpected|extra|not (permitted|allowed)", re.IGNORECASE)
_OPTIONAL: dict[str, re.Pattern[str]] = {
    "stream_options": re.compile("stream_options"),
    "reasoning_effort": re.compile("reasoning.?effort|think", re.IGNORECASE),
    "reasoning": re.compile("reasoning", re.IGNORECASE),
    "tool_choice": re.compile("tool_choice"),
}
"""Fields that can be left out when a server does not know them, and how its refusal names them."""
_SWAPS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


class ChatCompletions:
    """A `Model` behind `…/chat/completions`. Connections are kept between calls."""

    def __init__(self, route: Route, info: ModelInfo) -> None:
        self._route = route
        self._info = info
        self._connection: Connection | None = None
        self._opening = asyncio.Lock()
        self._rejected: set[str] = set()

    @property
    def info(self) -> ModelInfo:
        """What is known of the model."""
        return self._info

    async def aclose(self) -> None:
        """Close connections."""
        if self._connection is not None:
            await self._connection.aclose()
            self._connection = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One call. A field this server turns out not to know is left out at once and from then on.

        Raises:
            ModelError: the call failed.
        """
        connection = await self._connect()
        body = chat_body(self._route.model, request, self._route.quirks, self._route.provider)
        while True:
            sent = self._accepted(body)
            try:
                async with contextlib.aclosing(self._attempt(connection, sent)) as events:
                    async for event in events:
                        yield event
                return
            except ModelError as error:
                field = _rejected_field(sent, error)
                if field is None or field in self._rejected:
                    raise
                self._rejected.add(field)

    async def _attempt(self, connection: "Connection", body: Json) -> AsyncGenerator[ModelEvent, None]:
        async with connection.post("/chat/completions", encode(body)) as response:
            if response.status != 200:
                raise await _refusal(response)
            try:
                async with contextlib.aclosing(self._events(response)) as events:
                    async for event in events:
                        yield event
            except ModelError as error:
                error.request_id = error.request_id or request_id(response.headers)
                raise

    async def _events(self, response: "Response") -> AsyncGenerator[ModelEvent, None]:
        stream = ChatStream(self._route.provider)
        async with contextlib.aclosing(response.chunks()) as chunks:
            start = await _first_bytes(chunks)
            if start.lstrip()[:1] in (b"{", b"[", b"<"):
                rest = [chunk async for chunk in chunks]
                for event in stream.whole(start + b"".join(rest)):
                    yield event
            else:
                async for event in _stream_events(stream, start, chunks, response):
                    yield event
            for event in stream.end():
                yield event
            response.hurry(_CLOSE_S)
            with contextlib.suppress(ModelError):
                async for _ in chunks:  # reading to the end keeps the connection for the next call
                    pass

    async def _connect(self) -> "Connection":
        async with self._opening:
            if self._connection is None:
                self._connection = await asyncio.to_thread(open_connection, self._route)
            return self._connection

    def _accepted(self, body: Json) -> Json:
        """The body without the fields this server has refused; `messages` stays last."""
        return {
            _SWAPS[name] if name in self._rejected and name in _SWAPS else name: value
            for name, value in body.items()
            if name not in self._rejected or name in _SWAPS
        }


def open_connection(route: Route) -> "Connection":
    """A connection with the route's headers. Loads the HTTP library: 70 ms the first time.

    Raises:
        ModelError: address, key or proxy settings are unusable.
    """
    from .http import Connection

    headers = {"user-agent": f"agent-cli/{__version__}", "accept": "text/event-stream"}
    if route.api_key:
        headers["authorization"] = f"Bearer {route.api_key}"
    return Connection(route.base_url, headers | route.headers, route.timeouts)


async def _first_bytes(chunks: AsyncIterator[bytes]) -> bytes:
    """The first chunks, up to one with something in it; all that came when there is none."""
    start = b""
    async for chunk in chunks:
        start += chunk
        if start.strip():
            break
    return start


async def _stream_events(
    stream: ChatStream, start: bytes, chunks: AsyncIterator[bytes], response: "Response"
) -> AsyncGenerator[ModelEvent, None]:
    """Events until the server says that nothing follows. Once the answer is over, a connection that
    breaks or falls silent costs its usage at most."""
    for event in stream.feed(start):
        yield event
    while not stream.done:
        if stream.finished:
            response.hurry(_TAIL_S)
        try:
            chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except ModelError as error:
            if stream.finished:
                return
            error.usage = stream.usage
            raise
        for event in stream.feed(chunk):
            yield event


async def _refusal(response: "Response") -> ModelError:
    if 300 <= response.status < 400:
        place = response.headers.get("location", "another address")
        return ModelError("not_found", f"the server redirects to {place}: make that the base URL")
    data = await response.read()
    body: Any
    try:
        body = msgspec.json.decode(data)
    except msgspec.DecodeError:
        body = data.decode("utf-8", "replace")
    return classify(response.status, body, response.headers)


def _rejected_field(body: Json, error: ModelError) -> str | None:
    """The optional field a refusal is about."""
    if error.status not in (400, 422) or not _REJECTED.search(error.message):
        return None
    for name, pattern in _OPTIONAL.items():
        if name in body and pattern.search(error.message):
            return name
    return next((name for name in _SWAPS if name in body and name in error.message), None)
