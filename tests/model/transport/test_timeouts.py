"""Each phase of a request ends within its own limit, and nothing stays open."""

import asyncio
import socket
import threading
import time

import pytest

from agent_cli.config.schema import Timeouts
from agent_cli.model.transport.connection_errors import Unreachable
from agent_cli.model.types.base import Alive, CallPiece, ModelError, ModelEvent, TextPiece
from tests.model.network import Listener, Proxy
from tests.model.reaching import ASK, answer, clear, client, failure
from tests.model.server import Call, Reply, Server

SHORT = Timeouts(connect_s=0.3, first_byte_s=0.5, idle_s=0.4, stalled_s=0.6)
CONNECTED = Timeouts(connect_s=30.0, first_byte_s=0.5, idle_s=0.4, stalled_s=0.6)
"""Short as well, once there is a connection."""
PATIENCE_S = 60.0
"""Far longer than any limit, far shorter than the servers here go on."""


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    clear(monkeypatch)


async def test_a_connection_that_is_never_accepted() -> None:
    """The queue of a listener that accepts nothing is filled; Linux then drops what else knocks."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        knocking = [socket.socket() for _ in range(4)]
        for each in knocking:
            each.setblocking(False)
            each.connect_ex(deaf.getsockname())
        await asyncio.sleep(0.05)
        async with asyncio.timeout(PATIENCE_S):
            error = await failure(f"http://127.0.0.1:{deaf.getsockname()[1]}/v1", SHORT)
        for each in knocking:
            each.close()
    assert isinstance(error, Unreachable) and (error.kind, error.hop) == ("timeout", "tcp")
    assert "within 0.3 s" in error.message


async def test_a_tls_handshake_that_is_never_answered() -> None:
    async with Listener() as server:
        async with asyncio.timeout(PATIENCE_S):
            error = await failure(f"https://127.0.0.1:{server.port}/v1", SHORT)
        assert isinstance(error, Unreachable) and (error.kind, error.hop) == ("timeout", "tls")
        await server.until_closed()


async def test_a_proxy_that_accepts_and_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Proxy({}, manner="hang") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        async with asyncio.timeout(PATIENCE_S):
            error = await failure("https://api.invalid/v1", SHORT)
        assert isinstance(error, Unreachable) and (error.kind, error.hop) == ("timeout", "proxy")
        assert "took the connection and did not answer within 0.3 s" in error.message
        await proxy.until_closed()


async def test_a_request_that_is_never_read() -> None:
    """The kernel takes the first megabytes; then sending itself stands still."""
    large = Timeouts(connect_s=5, first_byte_s=0.5)
    async with _Deaf() as server, asyncio.timeout(PATIENCE_S):
        async with client(f"http://127.0.0.1:{server.port}/v1", large) as model:
            request = type(ASK)(system="s" * 30_000_000, messages=ASK.messages)
            with pytest.raises(ModelError) as caught:
                async for _ in model.stream(request):
                    pass
        await server.until_closed()
    assert caught.value.kind == "stalled"


class _Deaf(Listener):
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(0.8)
        writer.transport.abort()


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply(text="x", hang="before_headers"), "stalled"),
        (Reply(text="x", hang="after_headers"), "stalled"),
        (Reply(text="some text", piece=2, hang="mid_stream", after=3), "stalled"),
        (Reply(calls=(Call("read", {"path": "abcdef"}),), piece=2, hang="mid_stream", after=6), "stalled"),
        (Reply(raw="\x00".join([": wait\n\n"] * 10_000), event_delay_s=0.1), "stalled"),
        pytest.param(
            Reply(raw="\x00".join(["data: {}\n\n"] * 10_000), event_delay_s=0.1),
            "stalled",
            marks=pytest.mark.long,
        ),
        pytest.param(
            Reply(raw="\x00".join(["\n"] * 10_000), event_delay_s=0.1), "stalled", marks=pytest.mark.long
        ),
        pytest.param(
            Reply(raw="\x00".join(["{", *[" "] * 10_000]), event_delay_s=0.1), "stalled", marks=pytest.mark.long
        ),
        (Reply(raw="\x00".join(["data: ", *["x"] * 10_000]), event_delay_s=0.1), "stalled"),
    ],
    ids=[
        "before headers",
        "after headers",
        "in the text",
        "in the arguments",
        "comments only",
        "empty chunks only",
        "blank lines only",
        "one object without an end",
        "one event without an end",
    ],
)
async def test_a_server_that_falls_silent(reply: Reply, kind: str) -> None:
    async with Server(reply) as server:
        async with asyncio.timeout(PATIENCE_S):
            error = await failure(server.url, CONNECTED)
        assert error.kind == kind and error.message
        await server.until_closed()


@pytest.mark.parametrize("behind", [": ping\n\n", "x"], ids=["comments", "an event without an end"])
async def test_a_finished_answer_counts_though_the_stream_never_ends(behind: str) -> None:
    end = 'data: {"choices":[{"delta":{"content":"all of it"},"finish_reason":"stop"}]}\n\n'
    async with Server(Reply(raw="\x00".join([end, *[behind] * 10_000]), event_delay_s=0.1)) as server:
        async with asyncio.timeout(PATIENCE_S):
            assert (await answer(server.url, CONNECTED)).text == "all of it"
        await server.until_closed()
        assert len(server.requests) == 1


async def test_a_stream_that_goes_on_behind_its_last_event_is_left() -> None:
    end = 'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    async with Server(Reply(raw="\x00".join([end, *[": ping\n\n"] * 10_000]), event_delay_s=0.05)) as server:
        async with asyncio.timeout(PATIENCE_S):
            assert (await answer(server.url, CONNECTED)).text == "x"
        await server.until_closed()


class _Trickle(Listener):
    """Refuses, and never comes to the end of its reason."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 X\r\ncontent-type: text/plain\r\n\r\n")
        while True:
            writer.write(b"no")
            await writer.drain()
            await asyncio.sleep(0.1)


async def test_a_refusal_without_an_end_counts() -> None:
    async with _Trickle() as server:
        async with asyncio.timeout(PATIENCE_S):
            error = await failure(f"http://127.0.0.1:{server.port}/v1", CONNECTED)
        assert (error.kind, error.status) == ("auth", 401) and error.message.startswith("nono")
        await server.until_closed()


async def test_what_came_before_the_silence_was_shown() -> None:
    reply = Reply(text="so", calls=(Call("read", {"path": "abcdef"}),), piece=2, hang="mid_stream", after=6)
    seen: list[ModelEvent] = []
    async with Server(reply) as server, client(server.url, CONNECTED) as model:
        with pytest.raises(ModelError):
            async for event in model.stream(ASK):
                seen.append(event)
    assert TextPiece("so") in seen and any(isinstance(event, CallPiece) for event in seen)


async def test_signs_of_life_without_content_are_told() -> None:
    raw = "\x00".join(
        [*[": wait\n\n"] * 3, 'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n']
    )
    async with Server(Reply(raw=raw, event_delay_s=0.05)) as server, client(server.url, CONNECTED) as model:
        events = [event async for event in model.stream(ASK)]
    assert Alive() in events and TextPiece("a") in events


async def test_an_idle_connection_that_the_server_has_closed_is_replaced() -> None:
    server = Server(Reply(text="a"), Reply(text="b"))
    async with server, client(server.url) as model:
        assert TextPiece("a") in [event async for event in model.stream(ASK)]
        await server.__aexit__()
        async with server:
            assert TextPiece("b") in [event async for event in model.stream(ASK)]


@pytest.mark.parametrize(
    "begun", [b"", b'data: {"choices":[{"delta":{"content":"all "}}]}\n\n'], ids=["head", "body"]
)
async def test_an_answer_that_arrives_while_the_program_is_stopped_is_read(begun: bytes) -> None:
    """Ctrl-Z and the time of the limit pass between two polls of the socket; the event loop is stopped in its place."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    rest = b'data: {"choices":[{"delta":{"content":"of it"},"finish_reason":"stop"}]}\n\n'
    asked, stopped, sent = threading.Event(), threading.Event(), threading.Event()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            if begun:
                connection.sendall(head + begun)
            asked.set()
            stopped.wait(PATIENCE_S)
            connection.sendall(rest if begun else head + rest)
            sent.set()

    def stop() -> None:
        asked.wait(PATIENCE_S)
        stopped.set()
        sent.wait(PATIENCE_S)
        time.sleep(0.6)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        limits = Timeouts(connect_s=30.0, first_byte_s=0.5, idle_s=0.5)
        asyncio.get_running_loop().call_later(0.1, stop)
        got = await answer(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", limits)
        thread.join(PATIENCE_S)
    assert got.text == ("all of it" if begun else "of it")
