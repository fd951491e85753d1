"""Connection setup: addresses, proxy, TLS. Tracks the hop that was reached, to report what failed."""

import asyncio
import base64
import contextlib
import ipaddress
import itertools
import socket
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import msgspec

from agent_cli.net.proxies import Proxy, bracketed, can_be_resolved

from ..types.base import ModelError
from .byte_stream import ByteStream
from .connection_errors import Hop, proxy_broke, proxy_login, proxy_refused, socks_refused

if TYPE_CHECKING:
    import ssl

    from h11 import Connection, Response

_HEAD_START_S = 0.25
"""Delay before the next address is tried in parallel (RFC 8305)."""
_PORTS = {"http": 80, "https": 443}
MOST_HEADERS = 100_000
_SHOWN_BYTES = 80
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""How an alert or a handshake message of TLS begins."""


class Target(msgspec.Struct, frozen=True):
    """A server: the part of a URL before its path."""

    scheme: str
    host: str
    """Host name as it is resolved: ASCII, without brackets."""
    port: int
    credentials: tuple[str, str] | None = None
    """User name and password from the URL."""

    @property
    def place(self) -> str:
        """HOST:PORT for display."""
        return f"{bracketed(self.host)}:{self.port}"

    @property
    def host_header(self) -> str:
        """Value of the Host header."""
        return bracketed(self.host) if self.port == _PORTS[self.scheme] else self.place


def target_of(url: str) -> Target:
    """Return the server of a URL.

    Raises:
        ModelError: `not_found`: the URL is not usable.
    """
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname or "", parts.port
        if scheme not in _PORTS:
            raise ValueError("it begins with neither http:// nor https://")
        if not host:
            raise ValueError("it names no host")
        named = host if host.isascii() else host.encode("idna").decode("ascii")
        if not named.isprintable() or any(each in named for each in ' <>"\\^`{|}%'):
            raise ValueError("the host holds characters that no name has")
        if not can_be_resolved(named):
            raise ValueError("a part of its name is empty or too long")
    except ValueError as error:
        raise ModelError("not_found", f"{url} is not a usable address: {error}") from error
    user = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
    return Target(scheme, named, _PORTS[scheme] if port is None else port, user)


class ConnectionSetup:
    """Progress of one request towards its server."""

    def __init__(self, target: Target, via: Proxy | None) -> None:
        """Start before the first hop."""
        self.hop: Hop = "tcp"
        self.target = target
        self.via = via

    @property
    def is_forwarded(self) -> bool:
        """True if a proxy receives the request itself, with the absolute URL, instead of tunnelling it."""
        return self.via is not None and self.target.scheme == "http" and not self.via.url.startswith("socks")

    async def open(self, context: "Callable[[], ssl.SSLContext]") -> ByteStream:
        """Connect to the server, or to the proxy that forwards. `context` returns the TLS context.

        Raises:
            Unreachable: the proxy refuses, or is not a proxy.
            OSError: a hop failed; `hop` says which.
        """
        via = self.via
        stream = (
            await connected(via.host, via.port) if via else await connected(self.target.host, self.target.port)
        )
        try:
            if via is not None:
                await self._pass_proxy(stream, via, context)
            if self.target.scheme == "https":
                self.hop = "tls"
                await stream.start_tls(context(), self.target.host)
        except BaseException:
            stream.close()
            raise
        return stream

    async def _pass_proxy(self, stream: ByteStream, via: Proxy, context: "Callable[[], ssl.SSLContext]") -> None:
        if via.url.startswith("https:"):
            self.hop = "proxy"
            await stream.start_tls(context(), via.host)
        if via.url.startswith("socks"):
            self.hop = "proxy"
            await _pass_socks(stream, self.target, via)
        elif not self.is_forwarded:
            self.hop = "proxy"
            await pass_tunnel(stream, self.target, via)


def proxy_headers(via: Proxy) -> list[tuple[str, str]]:
    """Return the headers a proxy needs to accept a request."""
    return [("proxy-authorization", basic(*via.credentials))] if via.credentials is not None else []


def basic(user: str, password: str) -> str:
    """Return the value of a Basic authorization header (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


async def pass_tunnel(stream: ByteStream, target: Target, via: Proxy) -> None:
    """Ask an HTTP proxy to connect to the server (RFC 9110 §9.3.6)."""
    import h11

    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEADERS)
    headers = [("host", target.place), ("accept", "*/*"), *proxy_headers(via)]
    sent = connection.send(h11.Request(method="CONNECT", target=target.place, headers=headers))
    await stream.send(sent or b"")
    try:
        answer = await answer_of(connection, stream)
    except h11.RemoteProtocolError as error:
        raise proxy_broke(str(error), via) from error
    if not 200 <= answer.status_code < 300:
        words = bytes(answer.reason).decode("ascii", "replace")
        raise proxy_refused(target.place, answer.status_code, words, via)


async def answer_of(connection: "Connection", stream: ByteStream) -> "Response":
    """Read the status and headers of a response.

    Raises:
        h11.RemoteProtocolError: the data is not a response.
        OSError: the connection broke.
    """
    import h11

    head = b""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Response):
            return event
        if event is not h11.NEED_DATA:
            if isinstance(event, h11.InformationalResponse):
                continue
            raise h11.RemoteProtocolError(f"{type(event).__name__} in place of an answer")
        data = await stream.receive()
        if not data:
            raise h11.RemoteProtocolError(_sent_instead(head))
        head = head or data[:_SHOWN_BYTES]
        if head[:2] in _TLS_RECORDS:
            raise h11.RemoteProtocolError("what came is not HTTP but TLS: the address needs https://")
        connection.receive_data(data)


def _sent_instead(head: bytes) -> str:
    """Return what came before the connection ended without a response."""
    if not head:
        return "no answer came"
    if head.startswith(b"HTTP/"):
        return "only part of the headers came"
    return f"what came is not HTTP: {head.decode('ascii', 'replace').strip()!r}"


async def _pass_socks(stream: ByteStream, target: Target, via: Proxy) -> None:
    """Ask a SOCKS proxy to connect to the server, whose name it resolves (RFC 1928, RFC 1929)."""
    from socksio import ProtocolError, socks5

    connection = socks5.SOCKS5Connection()

    async def ask(request: object) -> object:
        connection.send(request)
        await stream.send(connection.data_to_send())
        data = await stream.receive()
        if not data:
            raise proxy_broke("it closed the connection", via)
        return connection.receive_data(data)

    methods = socks5.SOCKS5AuthMethod
    method = methods.NO_AUTH_REQUIRED if via.credentials is None else methods.USERNAME_PASSWORD
    try:
        chosen = await ask(socks5.SOCKS5AuthMethodsRequest([method]))
        if not isinstance(chosen, socks5.SOCKS5AuthReply) or chosen.method != method:
            if via.credentials is None:
                raise proxy_login("SOCKS", via)
            raise proxy_broke("it wants another way to sign in", via)
        if via.credentials is not None:
            user, password = (each.encode() for each in via.credentials)
            said = await ask(socks5.SOCKS5UsernamePasswordRequest(user, password))
            if not isinstance(said, socks5.SOCKS5UsernamePasswordReply) or not said.success:
                raise proxy_login("SOCKS", via)
        command = socks5.SOCKS5Command.CONNECT
        done = await ask(socks5.SOCKS5CommandRequest.from_address(command, (target.host, target.port)))
        if not isinstance(done, socks5.SOCKS5Reply) or done.reply_code != socks5.SOCKS5ReplyCode.SUCCEEDED:
            code = getattr(done, "reply_code", None)
            words = code.name.replace("_", " ").lower() if code is not None else "no answer"
            forbidden = code == socks5.SOCKS5ReplyCode.CONNECTION_NOT_ALLOWED_BY_RULESET
            raise socks_refused(target.place, words, via, forbidden=forbidden)
    except ProtocolError as error:
        raise proxy_broke(str(error), via) from error


async def connected(host: str, port: int) -> ByteStream:
    """Return a connection to the first address of a host that accepts one.

    Raises:
        OSError: none does; socket.gaierror: there is no such host.
    """
    loop = asyncio.get_running_loop()
    if _is_address(host):
        addresses = [host]
    else:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = _alternating([str(each[4][0]) for each in found])
    if len(addresses) == 1:
        return await _to_address(addresses[0], port)
    return await _first([partial(_to_address, each, port) for each in addresses])


async def _to_address(address: str, port: int) -> ByteStream:
    return (await asyncio.get_running_loop().create_connection(ByteStream, address, port))[1]


def _alternating(addresses: Sequence[str]) -> list[str]:
    """Return addresses of both families alternately, starting with the family of the first, without duplicates."""
    unique = list(dict.fromkeys(addresses))
    first = [each for each in unique if (":" in each) == (":" in unique[0])]
    others = [each for each in unique if each not in first]
    pairs = itertools.zip_longest(first, others)
    return [each for pair in pairs for each in pair if each is not None]


async def _first(attempts: Sequence[Callable[[], Coroutine[None, None, ByteStream]]]) -> ByteStream:
    """Return the result of the first attempt that succeeds. The next one starts when one fails or takes too
    long."""
    running: set[asyncio.Task[ByteStream]] = set()
    waiting, errors, winners = list(attempts), list[BaseException](), list[ByteStream]()
    try:
        while (waiting or running) and not winners:
            if waiting:
                running.add(asyncio.create_task(waiting.pop(0)()))
            limit_s = _HEAD_START_S if waiting else None
            done, running = await asyncio.wait(running, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                if (error := each.exception()) is None:
                    winners.append(each.result())
                else:
                    errors.append(error)
    finally:
        for each in running:
            each.cancel()
        late = await asyncio.gather(*running, return_exceptions=True)
        for stream in (*winners[1:], *(each for each in late if isinstance(each, ByteStream))):
            stream.close()
    if not winners:
        raise errors[0]
    return winners[0]


def _is_address(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False
