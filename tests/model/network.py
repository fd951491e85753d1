"""Networks as people have them at work, on loopback: a server behind TLS with a company's own authority, and a
proxy that must be asked.

    async with Server(Reply(text="hi")) as server, Tls(server.port, CA, "api.invalid") as front:
        async with Proxy({"api.invalid": front.port}) as proxy:
            ... HTTPS_PROXY=proxy.url, base URL https://api.invalid/v1 ...
"""

import asyncio
import base64
import contextlib
import socket
import ssl
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Literal, Self

import msgspec
import trustme

Manner = Literal["relay", "refuse", "close", "hang", "no_http"]
Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.contextmanager
def refusing_port() -> Iterator[int]:
    """A port on loopback that refuses connections: held, so that no test beside this one gets it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


class Asked(msgspec.Struct, frozen=True):
    """What a proxy was asked for."""

    method: str
    target: str
    headers: dict[str, str]
    """Names in lower case."""


class Listener:
    """A TCP server on a free port of loopback; what it does with a connection is up to `serve`."""

    def __init__(self) -> None:
        self.port = 0
        self.opened = 0
        self.open = 0
        self.context: ssl.SSLContext | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take the connection and say nothing."""
        await reader.read()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self.context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until_closed(self, timeout_s: float = 30.0) -> None:
        """Return when no connection is open.

        Raises:
            TimeoutError: one still is.
        """
        async with asyncio.timeout(timeout_s):
            while self.open:
                await asyncio.sleep(0.005)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.opened += 1
        self.open += 1
        try:
            await self.serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.open -= 1
            writer.close()


class Tls(Listener):
    """TLS in front of a plain server, with a certificate of `authority` for `name`."""

    def __init__(self, port: int, authority: trustme.CA, name: str, **validity: datetime) -> None:
        super().__init__()
        self._behind = port
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(name, **validity).configure_cert(self.context)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _relay((reader, writer), await asyncio.open_connection("127.0.0.1", self._behind))


class Proxy(Listener):
    """An HTTP proxy that resolves names itself: `hosts` maps each to a port on loopback."""

    def __init__(
        self,
        hosts: dict[str, int],
        *,
        login: str = "",
        manner: Manner = "relay",
        status: str = "403 Forbidden",
        context: ssl.SSLContext | None = None,
    ) -> None:
        """`login` is USER:PASSWORD to be asked for; `status` is what it says when it refuses."""
        super().__init__()
        self._hosts = hosts
        self._login = login
        self._manner = manner
        self._status = status
        self.context = context
        self.asked: list[Asked] = []

    @property
    def url(self) -> str:
        """To be put into a variable."""
        login = self._login.replace("@", "%40") + "@" if self._login else ""
        return f"http{'s' if self.context else ''}://{login}127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ", 2)
        pairs = (line.split(":", 1) for line in head[1:] if ":" in line)
        asked = Asked(method, target, {name.strip().lower(): value.strip() for name, value in pairs})
        self.asked.append(asked)
        match self._manner:
            case "hang":
                await reader.read()
                return
            case "close":
                return
            case "no_http":
                writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
                await writer.drain()
                return
            case "refuse":
                return await _say(writer, self._status)
        wanted = "Basic " + base64.b64encode(self._login.encode()).decode()
        if self._login and asked.headers.get("proxy-authorization") != wanted:
            return await _say(writer, "407 Proxy Authentication Required")
        host = target.removeprefix("http://").split("/")[0].split(":")[0]
        if host not in self._hosts:
            return await _say(writer, "502 Bad Gateway")
        behind = await asyncio.open_connection("127.0.0.1", self._hosts[host])
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            behind[1].write("\r\n".join(head).encode("latin-1"))
        await _relay((reader, writer), behind)


class Socks(Listener):
    """A SOCKS5 proxy (RFC 1928) that resolves names itself."""

    def __init__(self, hosts: dict[str, int], *, reply: int = 0, login: str = "") -> None:
        """`reply` is its code for every host; `login` is USER:PASSWORD to be asked for."""
        super().__init__()
        self._hosts = hosts
        self._reply = reply
        self._login = login.encode()
        self.asked: list[tuple[str, int]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        methods = await reader.readexactly((await reader.readexactly(2))[1])
        method = 2 if self._login else 0
        writer.write(bytes((5, method if method in methods else 0xFF)))
        if method not in methods or (self._login and not await self._signed_in(reader, writer)):
            return await writer.drain()
        _, _, _, kind = await reader.readexactly(4)
        assert kind == 3, "names go to the proxy unresolved"
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.asked.append((host, port))
        writer.write(bytes((5, self._reply, 0, 1)) + bytes(6))
        await writer.drain()
        if not self._reply:
            await _relay((reader, writer), await asyncio.open_connection("127.0.0.1", self._hosts[host]))

    async def _signed_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Check the user name and the password (RFC 1929)."""
        user = await reader.readexactly((await reader.readexactly(2))[1])
        password = await reader.readexactly((await reader.readexactly(1))[0])
        is_right = user + b":" + password == self._login
        writer.write(bytes((1, not is_right)))
        return is_right


def authority(folder: Path, name: str = "Example Corp") -> tuple[trustme.CA, str]:
    """A certificate authority of our own and the path of its certificate."""
    made = trustme.CA(organization_name=name)
    path = folder / f"{name.replace(' ', '-')}.pem"
    made.cert_pem.write_to_path(str(path))
    return made, str(path)


async def _say(writer: asyncio.StreamWriter, status: str) -> None:
    writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
    await writer.drain()


async def _relay(one: Peer, other: Peer) -> None:
    """Pass bytes on in both directions until one side ends."""
    ways = {asyncio.create_task(_pump(one[0], other[1])), asyncio.create_task(_pump(other[0], one[1]))}
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        other[1].close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
