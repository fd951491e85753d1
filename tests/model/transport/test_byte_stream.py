"""A connection as bytes, on any event loop."""

import asyncio
from typing import Any

from agent_cli.model.transport.byte_stream import ByteStream


class Foreign:
    """A transport as uvloop has it, on which many servers run: complete, but no subclass of those of asyncio."""

    def __init__(self, own: asyncio.BaseTransport) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


class Between(asyncio.Protocol):
    """Hands a stream what it gets, with a foreign transport."""

    def __init__(self) -> None:
        self.stream = ByteStream()
        self.data_received = self.stream.data_received  # type: ignore[method-assign]
        self.eof_received = self.stream.eof_received  # type: ignore[method-assign]
        self.connection_lost = self.stream.connection_lost  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implement `asyncio.Protocol`."""
        self.stream.connection_made(Foreign(transport))  # type: ignore[arg-type]


async def test_a_transport_of_another_event_loop_is_used_like_any_other() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        address = server.sockets[0].getsockname()
        _, between = await asyncio.get_running_loop().create_connection(Between, *address)
        await between.stream.send(b"hello\n")
        found = b""
        while data := await asyncio.wait_for(between.stream.receive(), 60):
            found += data
        assert found == b"hello\n"
        between.stream.close()
