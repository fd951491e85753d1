"""A loopback server for the endpoints beside a chat: fixed JSON by path, and Ollama's chat as scripted lines.

async with SideServer({"/api/show": {...}}, chats=[[{"message": …}, {"done": True}]]) as server:
    ... server.root, server.url, server.asked ...
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

Json = dict[str, Any]
Chat = Sequence[Json | str | None] | tuple[int, Any]
"""Lines of an answer (text as it is, None cuts the connection), or a status with a body."""


class SideServer:
    """Use as an async context manager.

    Attributes:
        root: `http://127.0.0.1:PORT`; `url` is the same with `/v1`.
        asked: method, path and decoded body of each request, in order.
    """

    def __init__(
        self,
        answers: Mapping[str, Any] | None = None,
        chats: Sequence[Chat] = (),
        *,
        delay_s: float = 0.0,
        chat_delay_s: float = 0.0,
    ) -> None:
        """`delay_s` is the silence before each of `answers`, `chat_delay_s` the one before a chat. An answer may be a list of
        several, used in turn, when it is in a tuple."""
        self._answers = {
            path: list(body) if isinstance(body, tuple) else body for path, body in (answers or {}).items()
        }
        self._turns = {path for path, body in (answers or {}).items() if isinstance(body, tuple)}
        self._chats = list(chats)
        self._delay_s = delay_s
        self._chat_delay_s = chat_delay_s
        self._tasks: set[asyncio.Task[None]] = set()
        self.asked: list[tuple[str, str, Any]] = []
        self.headers: list[str] = []
        self.root = self.url = ""
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.root = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.root}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def paths(self) -> list[str]:
        """The paths asked for, in order."""
        return [path for _, path, _ in self.asked]

    def bodies(self) -> list[Json]:
        """The bodies of the chats."""
        return [body for method, path, body in self.asked if path in ("/api/chat", "/v1/chat/completions")]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            while await self._serve(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.headers.append(head)
        method, path, _ = head.split(" ", 2)
        if path.startswith("http://"):  # as a proxy is asked
            path = "/" + path.split("/", 3)[3]
        length = next(
            (line.split(":")[1] for line in head.lower().split("\r\n") if line.startswith("content-length")), "0"
        )
        raw = await reader.readexactly(int(length))
        self.asked.append((method, path, json.loads(raw) if raw else None))
        if path in ("/api/chat", "/v1/chat/completions"):
            return await self._chat(writer, self._chats.pop(0))
        await asyncio.sleep(self._delay_s)
        body = self._answers.get(path)
        if path in self._turns and isinstance(body, list):
            body = body.pop(0) if len(body) > 1 else body[0]
        await _reply(
            writer, 200 if body is not None else 404, body if body is not None else {"error": "not found"}
        )
        return True

    async def _chat(self, writer: asyncio.StreamWriter, chat: Chat) -> bool:
        await asyncio.sleep(self._chat_delay_s)
        if isinstance(chat, tuple):
            await _reply(writer, *chat)
            return True
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for line in chat:
            if line is None:
                await writer.drain()
                return False
            data = (line if isinstance(line, str) else json.dumps(line) + "\n").encode()
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


async def _reply(writer: asyncio.StreamWriter, status: int, body: Any) -> None:
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    await writer.drain()
