"""A loopback HTTP/1.1 server that speaks three wire formats from a script, faults included.

    async with Server(Reply(text="hello"), Reply(status=429, headers={"retry-after": "1"})) as server:
        ... server.url ... server.requests ...

Each POST takes the next `Reply` and gets it in the format of its path: `…/chat/completions`, `…/messages`
(Anthropic) or `…/responses` (OpenAI). It is refused with 400, as the provider would say it, when it breaks a
rule of `strict`, `strict_anthropic` or `strict_responses`. `GET …/models` lists `models`. From the command line, for tests of the real program:

    python -m tests.model.server --script FILE --port-file FILE [--log FILE]

where the script is a JSON list of replies (the fields of `Reply`), or `{"replies": […], "models": […]}`,
the port appears in the port file once the server listens, and the log gets one request a line.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from agent_cli.protocol.usage import Usage
from tests.model import strict, strict_anthropic, strict_responses, wire_anthropic, wire_chat, wire_responses
from tests.model.replies import USAGE, Call, Reply, added

__all__ = ["USAGE", "Call", "Received", "Reply", "Script", "Server", "read_script", "serve"]


class Format(NamedTuple):
    """One wire format."""

    name: str
    """As the configuration spells it."""
    events: Callable[[Reply], list[bytes]]
    error: Callable[[int, str], dict[str, Any]]
    used: Callable[[bytes], Usage | None]
    complaint: Callable[[Any, frozenset[str], str], str]
    needs: frozenset[str] = frozenset()
    """Headers without which every request is refused."""


_CHAT = Format("chat_completions", wire_chat.events, wire_chat.error, wire_chat.used, strict.complaint)
FORMATS: dict[str, Format] = {
    "/chat/completions": _CHAT,
    "/messages": Format(
        "anthropic_messages",
        wire_anthropic.events,
        wire_anthropic.error,
        wire_anthropic.used,
        strict_anthropic.complaint,
        frozenset({"anthropic-version"}),
    ),
    "/responses": Format(
        "openai_responses",
        wire_responses.events,
        wire_responses.error,
        wire_responses.used,
        strict_responses.complaint,
    ),
}
"""By the end of the path."""


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


class Server:
    """A scripted server on a free port of 127.0.0.1; use as an async context manager.

    Attributes:
        url: base URL, ending in `/v1`.
        requests: completions asked for, in order.
        connections: connections open now.
        opened: connections there ever were.
        lost: times a client went away in the middle of a reply.
        ledger: the sum of the usage that was really sent, by wire format.
        summary: answers each request for a summary, when set, whatever the script has next.
        answer: answers every other request, when set, in place of the script.
    """

    def __init__(
        self,
        *replies: Reply,
        models: Sequence[str] = ("mock",),
        then: Reply | None = None,
        strict: bool = True,
        extra_fields: frozenset[str] = frozenset(),
        flavour: str = "",
        log: Path | None = None,
    ) -> None:
        """`then` answers requests behind the script's end, which are refused without it; `extra_fields`
        are body fields a strict server lets through; `flavour` is one of `strict.FLAVOURS`."""
        self._replies = list(replies)
        self._models = tuple(models)
        self.model_facts: dict[str, dict[str, Any]] = {}
        """More fields of a listed model, by its name."""
        self._then = then
        self._strict = strict
        self._extra_fields = extra_fields
        self._flavour = flavour
        self._log = log
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""
        self.port = 0
        self.requests: list[Received] = []
        self.connections = 0
        self.opened = 0
        self.lost = 0
        self.ledger: dict[str, Usage] = {}
        self.summary: Reply | None = None
        self.answer: Callable[[Received], Reply] | None = None

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

    def clear(self) -> None:
        """Drop the replies not used yet."""
        self._replies.clear()

    async def until_closed(self, timeout_s: float = 30.0) -> None:
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
            listed = {
                "object": "list",
                "data": [
                    {"id": name, "object": "model", **self.model_facts.get(name, {})} for name in self._models
                ],
            }
            return await _send(writer, Reply(body=listed), _CHAT, bytearray())
        reply, request, wire = self._choose(request)
        self.requests.append(request)
        self._write_log(request)
        sent = bytearray()
        gone = asyncio.create_task(_client_gone(reader))
        sending = asyncio.create_task(_send(writer, reply, wire, sent))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                self.lost += 1
                return False
            return await sending and not gone.done()
        finally:
            if used := wire.used(bytes(sent)):
                self.ledger[wire.name] = added(self.ledger.get(wire.name), used)
            for task in (gone, sending):
                task.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)

    def _choose(self, request: Received) -> tuple[Reply, Received, Format]:
        wire = next((wire for end, wire in FORMATS.items() if request.path.endswith(end)), None)
        if wire is None:
            return _refusal(_CHAT, 404, f"no such path: {request.path}"), request, _CHAT
        problem = self._complaint(request, wire) if self._strict else ""
        if problem:
            return _refusal(wire, 400, problem), msgspec.structs.replace(request, complaint=problem), wire
        if self.summary and b"about to be replaced" in request.raw[-20_000:]:
            return self.summary, request, wire
        if self.answer:
            return self.answer(request), request, wire
        at = next((at for at, each in enumerate(self._replies) if each.to.encode() in request.raw), None)
        if at is not None:
            return self._replies.pop(at), request, wire
        return self._then or _refusal(wire, 400, "the server's script is at its end"), request, wire

    def _complaint(self, request: Received, wire: Format) -> str:
        missing = wire.needs - request.headers.keys()
        if missing:
            return f"{min(missing)}: header is required"
        return wire.complaint(request.body, self._extra_fields, self._flavour)

    def _write_log(self, request: Received) -> None:
        if self._log is not None:
            line = {"path": request.path, "body": request.body, "complaint": request.complaint}
            with self._log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def _refusal(wire: Format, status: int, message: str) -> Reply:
    return Reply(status=status, body=wire.error(status, message))


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


async def _send(writer: asyncio.StreamWriter, reply: Reply, wire: Format, sent: bytearray) -> bool:
    """Send a reply, noting in `sent` what of its content went out; whether the connection stays open."""
    await asyncio.sleep(reply.delay_s)
    if reply.hang == "before_headers":
        await asyncio.Event().wait()
    if reply.body is not None or reply.status != 200:
        body = reply.body
        if body is None and wire is not _CHAT:
            body = wire.error(reply.status, f"HTTP {reply.status}")
        text = body if isinstance(body, str) else json.dumps(body)
        sent += text.encode()
        headers = {"content-type": "application/json", "content-length": str(len(text.encode()))}
        writer.write(_head(reply.status, headers | reply.headers) + text.encode())
        await writer.drain()
        return True
    headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked", "x-request-id": "req_1"}
    writer.write(_head(200, headers | reply.headers))
    await writer.drain()
    if reply.hang == "after_headers":
        await asyncio.Event().wait()
    raw = None if reply.raw is None else [block.encode() for block in reply.raw.split("\x00")]
    for count, data in enumerate(wire.events(reply) if raw is None else raw):
        if count == reply.after and (reply.drop or reply.hang):
            return await _break_off(writer, reply)
        await asyncio.sleep(reply.event_delay_s)
        sent += data
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
    flavour: str = ""


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
        *script.replies,
        models=script.models,
        then=script.then,
        extra_fields=script.extra_fields,
        flavour=script.flavour,
        log=log,
    )
    async with server:
        draft = port_file.with_suffix(".draft")
        draft.write_text(str(server.port), encoding="utf-8")
        draft.replace(port_file)
        await stop.wait()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="A scripted model server on loopback.")
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(read_script(options.script), options.port_file, options.log))


if __name__ == "__main__":
    main()
