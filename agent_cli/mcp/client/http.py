"""HTTP connections to servers: the client, its proxies and certificates, and the limit on response size.

The SDK ends a whole connection if one request fails, and loses the status of a response. So a response that is not
a protocol message is replaced here, before the SDK sees it, with an error that carries what happened.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec
from mcp.client.streamable_http import streamable_http_client

from agent_cli.net.certificates import tls_context
from agent_cli.net.proxies import BadProxy, Proxy, proxy_for
from agent_cli.protocol.json_text import BYTE_ORDER_MARK, decode_json, repair_json

from ..types.client import ServerError
from ..types.definition import ServerDefinition
from .http_failures import MARK, HttpFailure, of_exception, of_status, shown_url
from .process import MAX_MESSAGE_BYTES

SESSION = "mcp-session-id"
"""Header that names the session of a request."""
_CONNECT_S = 10.0
_MOST_ERROR_BYTES = 65_536
_COMPRESSED_SHARE = 1_000
"""Maximum expansion factor of a compressed response; compression is not requested."""
_TIMEOUT = httpx2.Timeout(_CONNECT_S, read=None, write=60.0, pool=None)
"""No read time-out here, because the time limit depends on the call."""


@asynccontextmanager
async def over_http(
    definition: ServerDefinition, auth: httpx2.Auth | None, on_failure: Callable[[HttpFailure], None]
) -> AsyncIterator[Any]:
    """Carry the SDK's messages to a server by streamable HTTP; `auth` adds the stored login to requests. The SDK
    itself reports messages that could not be delivered."""

    async with (
        http_client(definition, auth) as client,
        streamable_http_client(
            definition.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as streams,
    ):
        yield streams


def http_client(
    definition: ServerDefinition, auth: httpx2.Auth | None, on_failure: Callable[[HttpFailure], None] | None = None
) -> httpx2.AsyncClient:
    """Return the client for requests to a server. `on_failure` is called for failed messages, for a caller that
    does not examine the responses."""
    headers = {"accept-encoding": "identity", **definition.headers}
    transport = MessageTransport(definition, os.environ, on_failure)
    return httpx2.AsyncClient(headers=headers, timeout=_TIMEOUT, auth=auth, transport=transport, trust_env=False)


class TooLarge(httpx2.StreamError):
    """A response exceeds the size limit."""


class BrokenOff(httpx2.StreamError):
    """A response broke off."""


class MessageTransport(httpx2.AsyncBaseTransport):
    """Sends requests through the proxy from the environment, and replaces failed responses with protocol
    errors."""

    def __init__(
        self,
        definition: ServerDefinition,
        env: Mapping[str, str],
        on_failure: Callable[[HttpFailure], None] | None = None,
    ) -> None:
        """Create a transport. `on_failure` is called for failed requests, for a caller that does not examine the
        responses."""
        self._definition = definition
        self._env = env
        self._on_failure = on_failure
        self._ways: dict[str, httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        is_message = request.method == "POST"
        try:
            response = await self._way(str(request.url)).handle_async_request(request)
        except httpx2.TransportError as error:
            if not is_message:
                raise
            return self._answer(request, of_exception(error))
        return _repaired(await self._checked(request, response) if is_message else response)

    async def aclose(self) -> None:
        for way in self._ways.values():
            await way.aclose()

    def _way(self, url: str) -> httpx2.AsyncHTTPTransport:
        via = usable_proxy(url, self._env)
        key = via.url if via else ""
        if key not in self._ways:
            self._ways[key] = httpx2.AsyncHTTPTransport(
                verify=tls_context(), trust_env=False, proxy=proxy_setting(via)
            )
        return self._ways[key]

    async def _checked(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        kind = media_type(response)
        owns = has_credentials(self._definition)
        in_session = SESSION in request.headers
        failure = of_status(response, has_own_credentials=owns, in_session=in_session)
        if failure is not None:
            return await self._failed(request, response, failure, kind)
        if response.status_code == 200 and kind == "text/html":
            page = HttpFailure("refused", "answered with a web page instead of a message", 200)
            return await self._failed(request, response, page, kind)
        if kind != "text/event-stream":
            response.stream = _Bounded(response)
        return response

    async def _failed(
        self, request: httpx2.Request, response: httpx2.Response, failure: HttpFailure, kind: str
    ) -> httpx2.Response:
        """Return a response with the failure, or the server's own if it describes the error in the protocol."""
        body = await _beginning(response) if kind == "application/json" else b""
        await response.aclose()
        refusal = _own_error(body)
        if refusal is not None and refusal.id is None and failure.status == 400 and SESSION in request.headers:
            words = f"does not take requests of this session: {refusal.error.get('message') or failure.words}"
            failure = HttpFailure("session ended", words, failure.status)
        if refusal is not None and failure.kind == "refused":
            return httpx2.Response(
                response.status_code, headers={"content-type": "application/json"}, content=body, request=request
            )
        return self._answer(request, failure, dict(response.headers))

    def _answer(
        self, request: httpx2.Request, failure: HttpFailure, headers: Mapping[str, str] | None = None
    ) -> httpx2.Response:
        if self._on_failure is not None:
            self._on_failure(failure)
        error = {"code": -32603, "message": failure.words, "data": {MARK: msgspec.to_builtins(failure)}}
        challenge = {name: value for name, value in (headers or {}).items() if name.lower() == "www-authenticate"}
        return httpx2.Response(
            failure.status if failure.status >= 400 else 502,
            headers={**challenge, "content-type": "application/json"},
            content=msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error}),
            request=request,
        )


class _Bounded(httpx2.AsyncByteStream):
    """The body of a response up to a limit; its failure is raised in a form that the SDK attributes to this
    response alone."""

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._stream = response.stream
        self._most = MAX_MESSAGE_BYTES if _is_plain(response) else MAX_MESSAGE_BYTES // _COMPRESSED_SHARE

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._stream:
                size += len(chunk)
                if size > self._most:
                    raise TooLarge(f"it is larger than {MAX_MESSAGE_BYTES // 1_000_000} MB")
                yield chunk
        except httpx2.TransportError as error:
            raise BrokenOff("the connection was closed") from error

    async def aclose(self) -> None:
        await self._stream.aclose()


class _RepairedText(httpx2.AsyncByteStream):
    """The body of a response line by line, with text that every parser accepts."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest, mark = bytearray(), BYTE_ORDER_MARK
        async for chunk in self._stream:
            end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            if end or len(rest) > MAX_MESSAGE_BYTES:  # too long for us: the SDK says so
                yield repair_json((bytes(rest) + chunk[:end]).removeprefix(mark))
                rest, mark = bytearray(chunk[end:]), b""
            else:
                rest += chunk
        yield repair_json(bytes(rest).removeprefix(mark))

    async def aclose(self) -> None:
        await self._stream.aclose()


def _repaired(response: httpx2.Response) -> httpx2.Response:
    """Return a response whose messages every parser accepts. Compressed ones stay as they are."""
    if media_type(response) in ("application/json", "text/event-stream") and _is_plain(response):
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _RepairedText(response.stream)
    return response


def media_type(response: httpx2.Response) -> str:
    """Return the type of a response's body, without parameters."""
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _is_plain(response: httpx2.Response) -> bool:
    """Return True if the body of a response is not compressed."""
    return response.headers.get("content-encoding", "identity").lower() in ("", "identity")


def has_credentials(definition: ServerDefinition) -> bool:
    """Return True if the configuration has its own credentials, so that no login is used."""
    return any(name.lower() == "authorization" for name in definition.headers)


def usable_proxy(url: str, env: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for an address.

    Raises:
        ServerError: the proxy settings cannot be used.
    """
    try:
        return proxy_for(url, env)
    except BadProxy as error:
        raise ServerError(f"{shown_url(url)} cannot be reached: {error}") from error


def proxy_setting(via: Proxy | None) -> httpx2.Proxy | None:
    """Return a proxy in the form of the HTTP library."""
    if via is None:
        return None
    return httpx2.Proxy(via.url, ssl_context=tls_context() if via.url.startswith("https:") else None)


async def _beginning(response: httpx2.Response) -> bytes:
    found = b""
    with contextlib.suppress(httpx2.HTTPError):
        async for chunk in response.aiter_raw():
            found += chunk
            if len(found) > _MOST_ERROR_BYTES:
                return b""
    return found


class _Refusal(msgspec.Struct, frozen=True):
    error: dict[str, Any]
    id: int | str | None = None
    """None if it is not about the request, but about its HTTP headers."""


def _own_error(body: bytes) -> _Refusal | None:
    try:
        return decode_json(body, type=_Refusal)
    except msgspec.DecodeError:
        return None
