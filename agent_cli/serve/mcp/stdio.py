"""Newline-delimited JSON on the program's own standard streams.

Threads read and write, and none of them is waited for: a client that neither reads nor closes its end cannot keep
the program from ending. While it serves, standard input is empty and standard output is standard error, so that
nothing but the protocol reaches the client.
"""

import asyncio
import contextlib
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import mcp_types as wire
from mcp.shared.message import SessionMessage

_CHUNK = 65_536
_MAX_LINE = 64_000_000
_DRAIN_S = 2.0


@contextlib.asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[Any, Any]]:
    """Give the messages of the client, and where to put ours."""
    into_session, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    into_client, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    with _private_streams() as (source, sink):
        lines = _lines(source)
        writer = _Writer(sink)

        async def read() -> None:
            async with into_session:
                async for line in lines:
                    try:
                        message = wire.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError as error:
                        await into_session.send(error)
                        continue
                    await into_session.send(SessionMessage(message))

        async def write() -> None:
            async with from_session:
                async for each in from_session:
                    writer.put(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

        tasks = [asyncio.create_task(read()), asyncio.create_task(write())]
        try:
            yield from_client, into_client
        finally:
            from_client.close()
            into_client.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await writer.drained()


@contextlib.contextmanager
def _private_streams() -> Iterator[tuple[int, int]]:
    """Move the standard streams to descriptors that nothing else writes to and no child inherits."""
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    yield source, sink  # not closed: a thread may still be waiting on one


async def _lines(source: int) -> AsyncIterator[bytes]:
    loop, found = asyncio.get_running_loop(), asyncio.Queue[bytes | None]()

    def put(line: bytes | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
            loop.call_soon_threadsafe(found.put_nowait, line)

    threading.Thread(target=_read, args=(source, put), daemon=True).start()
    while (line := await found.get()) is not None:
        if line.strip():
            yield line


def _read(source: int, put: Callable[[bytes | None], None]) -> None:
    rest = bytearray()
    with contextlib.suppress(OSError):
        while chunk := os.read(source, _CHUNK):
            rest += chunk
            if b"\n" in chunk:
                *lines, last = bytes(rest).split(b"\n")
                rest = bytearray(last)
                for line in lines:
                    put(line)
            elif len(rest) > _MAX_LINE:
                print("agent: a message of the client is too long", file=sys.stderr)
                break
    put(None)


class _Writer:
    """Writes in a thread, since a pipe that is full blocks."""

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        threading.Thread(target=self._write, daemon=True).start()

    def put(self, data: bytes) -> None:
        """Hand over a message."""
        self._queue.put(data)

    async def drained(self) -> None:
        """Wait until all is written, for as long as a client that reads needs at most."""
        self._queue.put(None)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), _DRAIN_S)

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            while (data := self._queue.get()) is not None:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._sink, view) :]
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._over.set)
