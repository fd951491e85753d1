"""A loopback HTTP/1.1 server that speaks Chat Completions from a script, faults included.

    async with Server(Reply(text="hello"), Reply(status=429, headers={"retry-after": "1"})) as server:
        ... server.url ... server.requests ...

Each POST to `…/chat/completions` takes the next `Reply`; it is refused with 400 when it breaks a rule of
`strict.complaint`. `GET …/models` lists `models`. From the command line, for tests of the real program:

    python -m tests.model.server --script FILE --port-file FILE [--log FILE]

where the script is a JSON list of replies (the fields of `Reply`), or `{"replies": […], "models": […]}`,
the port appears in the port file once the server listens, and the log gets one request a line.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from .strict import complaint

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 64},
    "completion_tokens_details": {"reasoning_tokens": 5},
}


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call of a reply. `arguments` is an object, or text to be sent as it is."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str = ""


class Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to one request: a stream, unless `body` is given or `status` is an error."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    finish: str | None = None
    """None: `tool_calls` or `stop`. Empty: none is sent, as by a proxy that lost the end."""
    usage: dict[str, Any] | None = msgspec.field(default_factory=USAGE.copy)
    piece: int = 0
    """Characters of text or arguments in one event; 0: everything in one."""
    raw: str | None = None
    """The event stream, verbatim, instead of all of the above."""
    status: int = 200
    headers: dict[str, str] = {}
    body: Any = None
    """JSON (or text, sent as it is) instead of a stream."""
    delay_s: float = 0.0
    """Silence before the status line."""
    event_delay_s: float = 0.0
    """Silence before each event."""
    split: int = 0
    """Bytes in one write; 0: one event in one write."""
    hang: Literal["", "before_headers", "after_headers", "mid_stream"] = ""
    drop: Literal["", "fin", "rst"] = ""
    """Cut the connection after `after` events."""
    after: int = 1
    """Events sent before a `mid_stream` hang or a drop."""


class Received(msgspec.Struct, frozen=True):
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any
    """Decoded JSON; None when there was none."""
    raw: bytes
    complaint: str = ""
    """Why it was refused."""


def events(reply: Reply) -> list[bytes]:
    """The server-sent events of a reply."""
    if reply.raw is not None:
        return [block.encode() for block in reply.raw.split("\x00")]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in _pieces(reply.reasoning, reply.piece)]
    deltas += [{"content": piece} for piece in _pieces(reply.text, reply.piece)]
    for index, call in enumerate(reply.calls):
        deltas += _call_deltas(index, call, reply.piece)
    sent = [event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}) for delta in deltas]
    finish = reply.finish if reply.finish is not None else ("tool_calls" if reply.calls else "stop")
    if finish:
        sent.append(event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}))
        if reply.usage is not None:
            sent.append(event({"choices": [], "usage": reply.usage}))
        sent.append(b"data: [DONE]\n\n")
    return sent


def event(chunk: dict[str, Any]) -> bytes:
    """One chunk as a server-sent event."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock"}
    return b"data: " + json.dumps(head | chunk, ensure_ascii=False).encode() + b"\n\n"


def _call_deltas(index: int, call: Call, piece: int) -> list[dict[str, Any]]:
    text = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    function = {"name": call.name, "arguments": ""}
    first = {"index": index, "id": call.id or f"call_{os.urandom(6).hex()}", "type": "function"}
    rest = [{"index": index, "function": {"arguments": part}} for part in _pieces(text, piece)]
    return [{"tool_calls": [delta]} for delta in (first | {"function": function}, *rest)]


def _pieces(text: str, size: int) -> list[str]:
    if size <= 0:
        return [text] if text else []
    return [text[at : at + size] for at in range(0, len(text), size)]


class Server:
    """A scripted server on a free port of 127.0.0.1; use as an async context manager.

    Attributes:
        url: base URL, ending in `/v1`.
        requests: completions asked for, in order.
        connections: connections open now.
        opened: connections there ever were.
        lost: times a client went away in the middle of a reply.
    """

    def __init__(
        self,
        *replies: Reply,
        models: Sequence[str] = ("mock",),
        then: Reply | None = None,
        strict: bool = True,
        extra_fields: frozenset[str] = frozenset(),
        log: Path | None = None,
    ) -> None:
        """`then` answers requests behind the script's end, which are refused without it; `extra_fields`
        are body fields a strict server lets through."""
        self._replies = list(replies)
        self._models = tuple(models)
        self._then = then
        self._strict = strict
        self._extra_fields = extra_fields
        self._log = log
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""
        self.port = 0
        self.requests: list[Received] = []
        self.connections = 0
        self.opened = 0
        self.lost = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def add(self, *replies: Reply) -> None:
        """More replies, behind those not used yet."""
        self._replies.extend(replies)

    async def until_closed(self, timeout_s: float = 2.0) -> None:
        """Return when no connection is open.

        Raises:
            TimeoutError: one still is.
        """
        async with asyncio.timeout(timeout_s):
            while self.connections:
                await asyncio.sleep(0.005)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        self.opened += 1
        try:
            while await self._serve(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.connections -= 1
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether the connection stays open."""
        request = await _read_request(reader)
        if request.path.endswith("/models"):
            listed = {"object": "list", "data": [{"id": name, "object": "model"} for name in self._models]}
            return await _send(writer, Reply(body=listed))
        reply, request = self._choose(request)
        self.requests.append(request)
        self._write_log(request)
        gone = asyncio.create_task(_client_gone(reader))
        sending = asyncio.create_task(_send(writer, reply))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                self.lost += 1
                return False
            return await sending and not gone.done()
        finally:
            for task in (gone, sending):
                task.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)

    def _choose(self, request: Received) -> tuple[Reply, Received]:
        if not request.path.endswith("/chat/completions"):
            return _refusal(404, f"no such path: {request.path}"), request
        problem = complaint(request.body, self._extra_fields) if self._strict else ""
        if problem:
            return _refusal(400, problem), msgspec.structs.replace(request, complaint=problem)
        if self._replies:
            return self._replies.pop(0), request
        return self._then or _refusal(400, "the server's script is at its end"), request

    def _write_log(self, request: Received) -> None:
        if self._log is not None:
            line = {"path": request.path, "body": request.body, "complaint": request.complaint}
            with self._log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def _refusal(status: int, message: str) -> Reply:
    error = {"message": message, "type": "invalid_request_error", "code": None}
    return Reply(status=status, body={"error": error})


async def _read_request(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    pairs = (line.split(":", 1) for line in head[1:] if ":" in line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path.split("?")[0], headers, json.loads(raw) if raw else None, raw)


async def _client_gone(reader: asyncio.StreamReader) -> None:
    """Return when the client closes. It sends nothing while it waits for a reply."""
    while not reader.at_eof() and reader.exception() is None:
        await asyncio.sleep(0.005)


async def _send(writer: asyncio.StreamWriter, reply: Reply) -> bool:
    await asyncio.sleep(reply.delay_s)
    if reply.hang == "before_headers":
        await asyncio.Event().wait()
    if reply.body is not None or reply.status != 200:
        text = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
        headers = {"content-type": "application/json", "content-length": str(len(text.encode()))}
        writer.write(_head(reply.status, headers | reply.headers) + text.encode())
        await writer.drain()
        return True
    headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked", "x-request-id": "req_1"}
    writer.write(_head(200, headers | reply.headers))
    await writer.drain()
    if reply.hang == "after_headers":
        await asyncio.Event().wait()
    for count, data in enumerate(events(reply)):
        if count == reply.after and (reply.drop or reply.hang):
            return await _break_off(writer, reply)
        await asyncio.sleep(reply.event_delay_s)
        await _send_chunks(writer, data, reply.split)
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


async def _send_chunks(writer: asyncio.StreamWriter, data: bytes, split: int) -> None:
    size = split or len(data)
    for at in range(0, len(data), size or 1):
        part = data[at : at + size]
        writer.write(b"%x\r\n%b\r\n" % (len(part), part))
        await writer.drain()
        if split:
            await asyncio.sleep(0)


async def _break_off(writer: asyncio.StreamWriter, reply: Reply) -> bool:
    if reply.hang:
        await asyncio.Event().wait()
    await asyncio.sleep(0.02)  # let what was sent arrive before the cut
    if reply.drop == "rst":
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    return False


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A script file of the command line."""

    replies: tuple[Reply, ...] = ()
    models: tuple[str, ...] = ("mock",)
    then: Reply | None = None
    extra_fields: frozenset[str] = frozenset()


def read_script(path: Path) -> Script:
    """The script in a JSON file.

    Raises:
        msgspec.ValidationError: it is none; the text has the path of the fault.
    """
    data = msgspec.json.decode(path.read_bytes())
    return msgspec.convert({"replies": data} if isinstance(data, list) else data, Script)


async def serve(script: Script, port_file: Path, log: Path | None) -> None:
    """Serve until SIGTERM or SIGINT; the port is written once the server listens."""
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    server = Server(
        *script.replies, models=script.models, then=script.then, extra_fields=script.extra_fields, log=log
    )
    async with server:
        draft = port_file.with_suffix(".draft")
        draft.write_text(str(server.port), encoding="utf-8")
        draft.replace(port_file)
        await stop.wait()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="A scripted Chat Completions server on loopback.")
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(read_script(options.script), options.port_file, options.log))


if __name__ == "__main__":
    main()
