"""An HTTP proxy for commands without network access: it connects them to allowed hosts, by name, and refuses all
others. It accepts `CONNECT` and plain requests for `http://…` (RFC 9110, 9112), one per connection.

It listens on a given socket, which is inside the commands' network; its own connections are made from the host.
Names that resolve to this machine or a private network are refused, as for every fetch.
"""

import asyncio
import contextlib
import re
import socket
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from urllib.parse import urlsplit

from . import addresses
from .addresses import AddressRefused, Resolver, Target, reachable, target_of

PORT = 3128
"""Port on the loopback address of the commands' network."""
_MAX_HEAD_BYTES = 65_536
_HEAD_S = 30.0
_CONNECT_S = 20.0
_IDLE_S = 600.0
_CHUNK = 65_536
_MOST_CONNECTIONS = 200
"""Maximum concurrent connections. Each uses two of our descriptors, and a command must not exhaust them."""
_CONNECT_LINE = re.compile(r"CONNECT (\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+):(\d{1,5}) HTTP/1\.[01]")
_PLAIN_LINE = re.compile(r"([A-Z]+) (http://\S+) HTTP/1\.[01]")
_HOP_BY_HOP = re.compile(r"(?im)^(?:proxy-[\w-]+|connection|keep-alive):.*\r\n")
_BODY = b"This host is closed to commands in the sandbox. A rule fetch(HOST) would allow it.\n"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_Service = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


class HostProxy:
    """Serves one network of commands. `is_allowed` is called for each host on each connection; `private_hosts`
    (HOST or HOST:PORT) may be on this machine or in a private network."""

    def __init__(
        self,
        is_allowed: Callable[[str], bool],
        *,
        private_hosts: Sequence[str] = (),
        resolve: Resolver | None = None,
    ) -> None:
        self._is_allowed = is_allowed
        self._private_hosts = private_hosts
        self._resolve = resolve or addresses.resolve
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self.refused: list[str] = []
        """Hosts refused since the last call of `take_refused`, at most 20."""
        self.connected = 0
        """Number of connections made to hosts so far."""

    async def serve(self, listening: socket.socket) -> None:
        """Accept connections on a listening socket, which the proxy takes ownership of."""
        await self._accept(listening, self._answered)

    async def forward(self, listening: socket.socket, host: str, port: int) -> None:
        """Forward connections on a listening socket to a port of this machine, for protocols other than HTTP.
        `is_allowed` is called with HOST:PORT each time, with `host` as written in rules."""
        await self._accept(listening, partial(self._forwarded, host, port))

    async def _accept(self, listening: socket.socket, serve: _Service) -> None:
        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(self._tasks) >= _MOST_CONNECTIONS:
                writer.close()
                return
            task = asyncio.ensure_future(serve(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        listening.setblocking(False)
        self._servers.append(await asyncio.start_server(begin, sock=listening, limit=_MAX_HEAD_BYTES))

    def take_refused(self) -> tuple[str, ...]:
        """Return the refused hosts and clear the list."""
        found, self.refused = tuple(dict.fromkeys(self.refused)), []
        return found

    def close(self) -> None:
        """Stop listening, and start to close all connections."""
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()

    async def aclose(self) -> None:
        """Close all connections."""
        self.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _forwarded(
        self, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            self._check(f"{host}:{port}")
            async with asyncio.timeout(_CONNECT_S):
                upstream = await asyncio.open_connection(host.strip("[]"), port)
        except (AddressRefused, OSError, TimeoutError):
            pass
        else:
            self.connected += 1
            await _joined((reader, writer), upstream)
        finally:
            await _closed(writer)

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_S):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            target, first = _wanted(head)
            upstream = await self._opened(target)
        except AddressRefused as refusal:
            await _say(writer, "403 Forbidden", f"{refusal}\n".encode() + _BODY)
        except (OSError, TimeoutError) as error:
            await _say(writer, "502 Bad Gateway", f"{error or 'the host did not answer in time'}\n".encode())
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            await _say(writer, "400 Bad Request", b"This is no request for a proxy.\n")
        else:
            self.connected += 1
            if not first:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            upstream[1].write(first)
            await _joined((reader, writer), upstream)
        finally:
            await _closed(writer)

    async def _opened(self, target: Target) -> Streams:
        """Connect to a host.

        Raises:
            AddressRefused: it is not allowed, or resolves to a private network.
            OSError, TimeoutError: it cannot be reached.
        """
        self._check(target.host)
        problem: OSError = OSError(f"{target.host} has no address")
        async with asyncio.timeout(_CONNECT_S):
            for address in await reachable(target, self._resolve, self._private_hosts):
                try:
                    return await asyncio.open_connection(address, target.port)
                except OSError as error:
                    problem = error
        raise problem

    def _check(self, host: str) -> None:
        """Check that a host is allowed; otherwise add it to `refused`.

        Raises:
            AddressRefused: the host is not allowed.
        """
        if not self._is_allowed(host):
            del self.refused[:-19]
            self.refused.append(host)
            raise AddressRefused(f"{host} is not allowed")


def _wanted(head: str) -> tuple[Target, bytes]:
    """Return the target of a request, and the part to send on; nothing for a tunnel.

    Raises:
        AddressRefused: the address is invalid.
        ValueError: it is not a request that a proxy accepts.
    """
    line, _, rest = head.partition("\r\n")
    if found := _CONNECT_LINE.fullmatch(line):
        return target_of(f"https://{found[1]}:{int(found[2])}/"), b""
    if not (found := _PLAIN_LINE.fullmatch(line)):
        raise ValueError(line[:80])
    target = target_of(found[2])
    parts = urlsplit(found[2])
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    kept = _HOP_BY_HOP.sub("", rest.removesuffix("\r\n"))
    return target, f"{found[1]} {path} HTTP/1.1\r\n{kept}Connection: close\r\n\r\n".encode("latin-1")


async def _joined(one: Streams, two: Streams) -> None:
    """Relay data in both directions until both sides have ended, or nothing has arrived for a long time."""
    try:
        await asyncio.gather(_passed_on(one[0], two[1]), _passed_on(two[0], one[1]))
    except (OSError, TimeoutError):
        pass
    finally:
        await _closed(two[1])


async def _passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        async with asyncio.timeout(_IDLE_S):
            data = await reader.read(_CHUNK)
        if not data:
            break
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _say(writer: asyncio.StreamWriter, status: str, body: bytes) -> None:
    head = f"HTTP/1.1 {status}\r\nX-Sandbox: agent\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode("ascii") + body)
    with contextlib.suppress(OSError):
        await writer.drain()


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError, asyncio.CancelledError):
        await writer.wait_closed()
