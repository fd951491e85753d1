"""A connection that misbehaves on purpose: it stands between a client and the scripted server, asks a director
what to answer to each request, and passes on only as much of the answer as it is told to.

It notes what really arrived, so that a test knows which answers the client can have understood.
"""

import asyncio
import socket
import struct
from typing import Literal, NamedTuple, Protocol

from agent_cli.protocol.usage import Usage
from tests.model import wire_anthropic, wire_chat, wire_responses
from tests.model.network import Listener
from tests.model.replies import Reply, added, chunks
from tests.model.server import Server

_USED = {
    "/chat/completions": wire_chat.used,
    "/messages": wire_anthropic.used,
    "/responses": wire_responses.used,
}


class Cut(NamedTuple):
    """The connection ends within an answer."""

    share: float
    """How much of the answer's bytes arrive, head included; 0: nothing at all."""
    manner: Literal["fin", "rst", "hang"]


class Director(Protocol):
    """Decides what is answered."""

    def next(self) -> tuple[Reply, Cut | None]:
        """The answer to the request that has come, and where it is cut off."""
        ...

    def delivered(self, whole: bool, again: bool) -> None:
        """What of it arrived: `whole` when the end of the answer did; `again` when nothing did on a kept
        connection, so that the client sends the request once more, as if for the first time."""
        ...


class Faults(Listener):
    """In front of a `Server`. `ledger` is the usage that really reached the client; `posts` counts its
    requests, without those that it sends again at once."""

    def __init__(self, server: Server, director: Director) -> None:
        super().__init__()
        self._behind = server
        self._director = director
        self.ledger: Usage | None = None
        self.posts = 0

    @property
    def url(self) -> str:
        """Base URL, ending in `/v1`."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_kept = False
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            method, path, _ = head.decode("latin-1").split(" ", 2)
            request = head + await reader.readexactly(_length(head))
            if method != "POST":
                writer.write(await self._asked(request))
                continue
            reply, cut = self._director.next()
            self._behind.add(reply)
            answer = await self._asked(request)
            sent = answer if cut is None else answer[: int(len(answer) * cut.share)]
            self._book(path, sent)
            again = is_kept and not sent and cut is not None and cut.manner != "hang"
            self.posts += not again
            self._director.delivered(_whole(sent), again)
            is_kept = True
            writer.write(sent)
            await writer.drain()
            if cut is not None:
                return await _break_off(reader, writer, cut)

    async def _asked(self, request: bytes) -> bytes:
        """The whole answer of the server."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._behind.port)
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if b"transfer-encoding: chunked" not in head:
                return head + await reader.readexactly(_length(head))
            body = b""
            while not body.endswith(b"0\r\n\r\n"):
                body += await reader.read(65536)
            return head + body
        finally:
            writer.close()

    def _book(self, path: str, sent: bytes) -> None:
        """Behind the end of an answer an object without its last empty line counts too."""
        read = _payload(sent) if _whole(sent) else _payload(sent).rpartition(b"\n\n")[0]
        used = next(used for end, used in _USED.items() if path.endswith(end))(read)
        if used is not None:
            self.ledger = added(self.ledger, used)


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def _payload(sent: bytes) -> bytes:
    """What a chunked answer holds, as far as it came."""
    _, _, rest = sent.partition(b"\r\n\r\n")
    payload = b""
    while rest:
        size, line, rest = rest.partition(b"\r\n")
        if not line or not size:
            break
        try:
            length = int(size, 16)
        except ValueError:
            break
        payload += rest[:length]
        rest = rest[length + 2 :]
    return payload


def _whole(sent: bytes) -> bool:
    """Whether the end of the answer is in what was sent: the client knows then that nothing is missing."""
    if b" 200 " not in sent[:20]:
        return False
    for chunk in chunks(_payload(sent).rpartition(b"\n\n")[0]):
        choices = chunk.get("choices") or [{}]
        delta = chunk.get("delta") if isinstance(chunk.get("delta"), dict) else {}
        ended = chunk.get("type") in ("response.completed", "response.incomplete")
        if ended or choices[0].get("finish_reason") or (delta or {}).get("stop_reason"):
            return True
    return False


async def _break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: Cut) -> None:
    if cut.manner == "hang":
        await reader.read()
        return
    await asyncio.sleep(0.01)  # let what was sent arrive before the cut
    if cut.manner == "rst":
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
