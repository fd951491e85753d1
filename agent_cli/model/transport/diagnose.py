"""Diagnose the connection to a server, hop by hop with sockets of our own, for `agent doctor`.

Separate from the client, which connects in one go and reports only the result; this module stops at each hop,
reports what it saw, and examines the failing one more closely.
"""

import asyncio
import contextlib
import os
import ssl
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from urllib.parse import SplitResult, urlsplit

import msgspec

from agent_cli.config.schema import Timeouts
from agent_cli.net.addresses import resolve
from agent_cli.net.certificates import issuer, tls_context
from agent_cli.net.proxies import Proxy, excluded_by, is_loopback

from ..types.base import ModelError
from ..types.classify import classify
from .connection_errors import (
    Hop,
    Unreachable,
    broken,
    proxy_broke,
    proxy_refused,
    too_slow,
    untrusted,
    usable_proxy,
)

LIMIT_S = 10.0
"""Time limit per hop."""
_LISTS = {
    "/chat/completions": "/models",
    "/messages": "/models",
    "/responses": "/models",
    "/api/chat": "/api/tags",
}
_HEAD_BYTES = 65536


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
        via = usable_proxy(target.base_url)
    except ModelError as error:
        yield HopResult("proxy", error=error)
        return
    way = _Walk(url, via, limit_s)
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

    def __init__(self, url: SplitResult, via: Proxy | None, limit_s: float) -> None:
        self._host = url.hostname or ""
        self._port = url.port or (443 if url.scheme == "https" else 80)
        self._tls = url.scheme == "https"
        self._via = via
        self._limit_s = limit_s
        self._writer: asyncio.StreamWriter | None = None

    @property
    def _place(self) -> str:
        return f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"

    async def steps(self) -> AsyncGenerator[HopResult, None]:
        """Yield the result of each hop.

        Raises:
            Unreachable: at the hop that fails.
        """
        host, port = (self._via.host, self._via.port) if self._via else (self._host, self._port)
        source = "" if self._via or is_loopback(self._host) else excluded_by(self._host, self._port, os.environ)
        if source:
            yield HopResult("proxy", f"none: {source} names {self._host}")
        if (found := await self._resolved(host, port)) != [host]:
            yield HopResult("dns", f"{host} is {', '.join(found[:3])}")
        started = time.monotonic()
        reader, writer = await self._opened()
        yield HopResult("tcp", f"connected to {host}:{port} in {(time.monotonic() - started) * 1000:.0f} ms")
        if self._via is not None:
            yield HopResult("proxy", await self._tunnel(self._via, reader, writer))
        if self._tls and (self._via is None or not self._via.url.startswith("socks")):
            yield HopResult("tls", await self._trusted(writer))

    async def _resolved(self, host: str, port: int) -> list[str]:
        async with self._station("dns"):
            return list(await resolve(host, port))

    async def _opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = (self._via.host, self._via.port) if self._via else (self._host, self._port)
        async with self._station("tcp"):
            reader, self._writer = await asyncio.open_connection(host, port, limit=_HEAD_BYTES)
        return reader, self._writer

    async def _tunnel(self, via: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        """Return what the proxy does. A proxy for plain HTTP, or by SOCKS, is contacted only with the request
        itself.
        """
        if via.url.startswith("https:"):
            async with self._station("tls", via.host):
                await writer.start_tls(tls_context(), server_hostname=via.host)
        if not self._tls or via.url.startswith("socks"):
            return f"{via} is used"
        head = f"CONNECT {self._place} HTTP/1.1\r\nHost: {self._place}\r\n"
        if via.credentials is not None:
            login = b64encode(":".join(via.credentials).encode()).decode()
            head += f"Proxy-Authorization: Basic {login}\r\n"
        async with self._station("proxy"):
            writer.write(f"{head}\r\n".encode())
            answer = await reader.readuntil(b"\r\n\r\n")
        version, _, said = answer.split(b"\r\n")[0].decode("latin-1").partition(" ")
        status, _, words = said.partition(" ")
        if not version.startswith("HTTP/") or not status.isdigit():
            raise proxy_broke(f"it answered {version!r}", via)
        if not 200 <= int(status) < 300:
            raise proxy_refused(self._place, int(status), words, via)
        return f"{via} connects to {self._place}"

    async def _trusted(self, writer: asyncio.StreamWriter) -> str:
        """Return the issuer of the server's certificate once it is trusted."""
        try:
            async with self._station("tls"):
                await writer.start_tls(tls_context(), server_hostname=self._host)
        except Unreachable as error:
            cause = error.__cause__
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise untrusted(self._host, cause.verify_message, await self._signer()) from cause
            raise
        connection = writer.get_extra_info("ssl_object")
        by = issuer(connection.getpeercert(binary_form=True) or b"")
        return f"{connection.version()}, the certificate is issued by “{by}”"

    async def _signer(self) -> str:
        """Return the issuer of an untrusted certificate, read over a second connection that carries no data."""
        curious = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        curious.check_hostname, curious.verify_mode = False, ssl.CERT_NONE
        self.close()
        with contextlib.suppress(Unreachable):
            reader, writer = await self._opened()
            if self._via is not None:
                await self._tunnel(self._via, reader, writer)
            async with self._station("tls"):
                await writer.start_tls(curious, server_hostname=self._host)
            return issuer(writer.get_extra_info("ssl_object").getpeercert(binary_form=True) or b"")
        return ""

    @contextlib.asynccontextmanager
    async def _station(self, hop: Hop, host: str = "") -> AsyncIterator[None]:
        """Convert failures of the block to `Unreachable`."""
        try:
            async with asyncio.timeout(self._limit_s):
                yield
        except TimeoutError:
            raise too_slow(hop, self._place, self._limit_s, self._via) from None
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            failure = broken(error, hop, host or self._host, self._place, self._via)
            raise failure or ModelError("connection", str(error)) from error

    def close(self) -> None:
        """Close the socket."""
        if self._writer is not None:
            self._writer.close()


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
    return HopResult("http", f"HTTP {status}", failed, status, body)


def _decoded(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body.decode("utf-8", "replace")
