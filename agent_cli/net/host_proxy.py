"""An HTTP proxy for commands that have no network of their own: it connects them to hosts that are allowed, by
name, and refuses all others. It takes `CONNECT` and plain requests for `http://…` (RFC 9110, 9112), one for each
connection.

It listens where it is told to, which is inside the commands' network; its own connections go out from here. Names
that lead to this machine or a private network are refused, as for every fetch.
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
"""Where commands find it, on the loopback address of their own network."""
_MAX_HEAD_BYTES = 65_536
_HEAD_S = 30.0
_CONNECT_S = 20.0
_IDLE_S = 600.0
_CHUNK = 65_536
_MOST_CONNECTIONS = 200
"""At a time; each takes two of our descriptors, and a command shall not have them all."""
_CONNECT_LINE = re.compile(r"CONNECT (\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+):(\d{1,5}) HTTP/1\.[01]")
_PLAIN_LINE = re.compile(r"([A-Z]+) (http://\S+) HTTP/1\.[01]")
_HOP_BY_HOP = re.compile(r"(?im)^(?:proxy-[\w-]+|connection|keep-alive):.*\r\n")
_BODY = b"This host is closed to commands in the sandbox. A rule fetch(HOST) would allow it.\n"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_Service = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


class HostProxy:
    """Serves one network of commands. `is_allowed` is asked of each host at the moment it is wanted;
    `private_hosts` (HOST or HOST:PORT) may be on this machine or a private network."""

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
        """Hosts that were wanted and not allowed since `take_refused` was last called, at most 20."""
        self.connected = 0
        """How many connections to hosts were made so far."""

    async def serve(self, listening: socket.socket) -> None:
        """Accept connections on a listening socket, which belongs to the proxy from now on."""
        await self._accept(listening, self._answered)

    async def forward(self, listening: socket.socket, host: str, port: int) -> None:
        """Pass whatever connects to a listening socket on to a port of this machine, for what is not HTTP.
        `is_allowed` is asked of HOST:PORT each time, with `host` as it is written in rules."""
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
        """Return the hosts that were refused, once."""
        found, self.refused = tuple(dict.fromkeys(self.refused)), []
        return found

    def close(self) -> None:
        """Listen no more, and begin to close all connections."""
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
        """Return a connection to a host.

        Raises:
            AddressRefused: it is not allowed, or leads to a private network.
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
        """Raises:
        AddressRefused: the host is not allowed; it is remembered as such.
        """
        if not self._is_allowed(host):
            del self.refused[:-19]
            self.refused.append(host)
            raise AddressRefused(f"{host} is not allowed")


def _wanted(head: str) -> tuple[Target, bytes]:
    """Return where a request wants to go, and what of it is passed on; nothing for a tunnel.

    Raises:
        AddressRefused: an address that cannot be.
        ValueError: no request that a proxy takes.
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
    """Pass on what comes from either side until both have ended, or nothing has come for long."""
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
