"""Messages of the MCP SDK on the program's own standard streams."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import anyio
import mcp_types as wire
from mcp.shared.message import SessionMessage

from ..jsonrpc.channel import LineTooLong
from ..jsonrpc.stdio import standard_channel


@contextlib.asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[Any, Any]]:
    """Yield the stream of the client's messages, and the stream for ours."""
    into_session, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    into_client, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    async with standard_channel() as channel:

        async def read() -> None:
            async with into_session:
                try:
                    async for line in channel.lines():
                        try:
                            message = wire.jsonrpc_message_adapter.validate_json(line, by_name=False)
                        except ValueError as error:
                            await into_session.send(error)
                            continue
                        await into_session.send(SessionMessage(message))
                except LineTooLong as error:
                    print(f"agent: {error}", file=sys.stderr)

        async def write() -> None:
            async with from_session:
                async for each in from_session:
                    channel.write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

        tasks = [asyncio.create_task(read()), asyncio.create_task(write())]
        try:
            yield from_client, into_client
        finally:
            from_client.close()
            into_client.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
