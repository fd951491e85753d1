"""Diagnose the connection to a server, hop by hop, for `agent doctor`.

The client connects in one go and reports only the result; this module makes the same hops, stops at each, reports
what it saw, and examines the failing one more closely.
"""

import asyncio
import contextlib
import os
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from urllib.parse import urlsplit

import msgspec

from agent_cli.config.schema import Timeouts
from agent_cli.net.addresses import resolve
from agent_cli.net.certificates import issuer, tls_context
from agent_cli.net.proxies import Proxy, excluded_by, is_loopback
from agent_cli.protocol.json_text import decode_json

from ..types.base import ModelError
from ..types.classify import classify
from .byte_stream import ByteStream
from .connection_errors import Hop, Unreachable, broken, redirected, too_slow, untrusted, usable_proxy
from .hops import Target as Server
from .hops import connected, pass_tunnel, target_of

LIMIT_S = 10.0
"""Time limit per hop."""
_LISTS = {
    "/chat/completions": "/models",
    "/messages": "/models",
    "/responses": "/models",
    "/api/chat": "/api/tags",
}


class HopResult(msgspec.Struct, frozen=True):
    """Result of one hop."""

    hop: Hop
    text: str = ""
    """Observation at this hop."""
    error: ModelError | None = None
    """Why the connection fails here."""
    status: int | None = None
    """Status of the HTTP response."""
    body: bytes = b""


class Target(msgspec.Struct, frozen=True):
    """The endpoint to reach."""

    base_url: str
    path: str
    """Path below the base URL: a free list request."""
    headers: Mapping[str, str] = {}

    def __repr__(self) -> str:
        """Return a representation without the headers, which hold a key."""
        return f"Target({self.base_url!r}, {self.path!r})"


def list_path(path: str) -> str:
    """Return the path of a server's model list given its API path: `/v1/messages` → `/v1/models`."""
    for end, replacement in _LISTS.items():
        if path.endswith(end):
            return path.removesuffix(end) + replacement
    return "/models"


async def walk(target: Target, limit_s: float = LIMIT_S) -> AsyncGenerator[HopResult, None]:
    """Yield the hops up to the first that fails, each as soon as it is passed, at most `limit_s` seconds each."""
    url = urlsplit(target.base_url)
    if url.scheme not in ("http", "https") or not url.hostname:
        yield HopResult(
            "address",
            error=ModelError("not_found", f"{target.base_url!r} is not an address such as https://HOST/v1"),
        )
        return
    try:
        server = target_of(target.base_url)
    except ModelError as error:
        yield HopResult("address", error=error)
        return
    try:
        via = usable_proxy(target.base_url)
    except ModelError as error:
        yield HopResult("proxy", error=error)
        return
    way = _Walk(server, via, limit_s)
    try:
        async with contextlib.aclosing(way.steps()) as steps:
            async for step in steps:
                yield step
    except Unreachable as error:
        yield HopResult(error.hop, error=error)
        return
    finally:
        way.close()
    yield await _ask(target, limit_s)


class _Walk:
    """A connection built step by step: name, socket, tunnel, TLS."""

    def __init__(self, server: Server, via: Proxy | None, limit_s: float) -> None:
        self._server = server
        self._via = via
        self._limit_s = limit_s
        self._stream: ByteStream | None = None

    async def steps(self) -> AsyncGenerator[HopResult, None]:
        """Yield the result of each hop.

        Raises:
            Unreachable: at the hop that fails.
        """
        server, via = self._server, self._via
        first = via or server
        source = "" if via or is_loopback(server.host) else excluded_by(server.host, server.port, os.environ)
        if source:
            yield HopResult("proxy", f"none: {source} names {server.host}")
        async with self._station("dns"):
            found = list(await resolve(first.host, first.port))
        if found != [first.host]:
            yield HopResult("dns", f"{first.host} is {', '.join(found[:3])}")
        started = time.monotonic()
        stream = await self._opened()
        ms = (time.monotonic() - started) * 1000
        yield HopResult("tcp", f"connected to {first.host}:{first.port} in {ms:.0f} ms")
        if via is not None:
            yield HopResult("proxy", await self._tunnel(via, stream))
        if server.scheme == "https" and (via is None or not via.url.startswith("socks")):
            yield HopResult("tls", await self._trusted(stream))

    async def _opened(self) -> ByteStream:
        first = self._via or self._server
        async with self._station("tcp"):
            self._stream = await connected(first.host, first.port)
        return self._stream

    async def _tunnel(self, via: Proxy, stream: ByteStream) -> str:
        """Return what the proxy does. A proxy for plain HTTP, or by SOCKS, is contacted only with the request
        itself."""
        if via.url.startswith("https:"):
            async with self._station("tls", via.host):
                await stream.start_tls(tls_context(), via.host)
        if self._server.scheme != "https" or via.url.startswith("socks"):
            return f"{via} is used"
        async with self._station("proxy"):
            await pass_tunnel(stream, self._server, via)
        return f"{via} connects to {self._server.place}"

    async def _trusted(self, stream: ByteStream) -> str:
        """Return the issuer of the server's certificate once it is trusted."""
        try:
            async with self._station("tls"):
                await stream.start_tls(tls_context(), self._server.host)
        except Unreachable as error:
            cause = error.__cause__
            if isinstance(cause, ssl.SSLCertVerificationError):
                signer, code = await self._signer(), cause.verify_code
                raise untrusted(self._server.host, cause.verify_message, signer, code=code) from cause
            raise
        version, certificate = stream.tls_facts()
        return f"{version}, the certificate is issued by “{issuer(certificate)}”"

    async def _signer(self) -> str:
        """Return the issuer of an untrusted certificate, read over a second connection that carries no data."""
        curious = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        curious.check_hostname, curious.verify_mode = False, ssl.CERT_NONE
        self.close()
        with contextlib.suppress(Unreachable):
            stream = await self._opened()
            if self._via is not None:
                await self._tunnel(self._via, stream)
            async with self._station("tls"):
                await stream.start_tls(curious, self._server.host)
            return issuer(stream.tls_facts()[1])
        return ""

    @contextlib.asynccontextmanager
    async def _station(self, hop: Hop, host: str = "") -> AsyncIterator[None]:
        """Convert failures of the block to `Unreachable`."""
        server, via = self._server, self._via
        try:
            async with asyncio.timeout(self._limit_s):
                yield
        except TimeoutError:
            raise too_slow(hop, server.place, self._limit_s, via) from None
        except OSError as error:
            failure = broken(error, hop, host or server.host, server.place, via)
            raise failure or ModelError("connection", str(error)) from error

    def close(self) -> None:
        """Close the socket."""
        if self._stream is not None:
            self._stream.close()


async def _ask(target: Target, limit_s: float) -> HopResult:
    """Return the first HTTP response, obtained with the regular client."""
    from .http import Connection

    connection: Connection | None = None
    try:
        connection = Connection(target.base_url, target.headers, Timeouts(connect_s=limit_s))
        status, body = await connection.get(target.path, limit_s)
    except ModelError as error:
        return HopResult("http", error=error)
    finally:
        if connection is not None:
            await connection.aclose()
    failed = classify(status, _decoded(body)) if status >= 400 else None
    if 300 <= status < 400:
        failed = redirected(target.base_url, target.path, body.decode())
    return HopResult("http", f"HTTP {status}", failed, status, body)


def _decoded(body: bytes) -> object:
    try:
        return decode_json(body)
    except msgspec.DecodeError:
        return body.decode("utf-8", "replace")
