"""Clients over real sockets, sessions without an engine: who gets what, and what is closed when."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from agent_cli.protocol.events import ErrorInfo, Notice, ToolOutput, TurnFailed
from agent_cli.protocol.operations import Interrupt, UserInput
from agent_cli.serve.app.server import AppServer, ServerFacts
from agent_cli.serve.jsonrpc.channel import LONGEST_LINE, SocketChannel
from tests.serve.app.fake_host import FakeHost

BOUND_S = 30.0
LONG = Notice(level="info", text="x" * 100_000)


class Client:
    """The other end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._ids = 0
        self.events: list[dict[str, Any]] = []

    def begin(self, method: str, **params: Any) -> int:
        self._ids += 1
        self.send({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        return self._ids

    def send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def read(self) -> dict[str, Any] | None:
        """Return the next message; None at the end."""
        async with asyncio.timeout(BOUND_S):
            line = await self._reader.readline()
        message: dict[str, Any] = json.loads(line) if line else {}
        if message.get("method") == "event":
            self.events.append(message["params"]["event"])
        return message or None

    async def answer(self, number: int) -> dict[str, Any]:
        while (message := await self.read()) is not None:
            if message.get("id") == number:
                return message
        raise AssertionError("the connection was closed")

    async def ask(self, method: str, **params: Any) -> Any:
        return (await self.answer(self.begin(method, **params)))["result"]

    async def until(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first event that fits."""
        while True:
            for event in self.events:
                if fits(event):
                    return event
            assert await self.read() is not None

    async def until_seq(self, seq: int) -> None:
        """Read to the event of this number."""
        while not self.events or self.events[-1]["seq"] < seq:
            assert await self.read() is not None

    async def rest(self) -> None:
        while await self.read() is not None:
            pass

    async def leave(self) -> None:
        self._writer.close()


class Place:
    """A server, and how clients get to it."""

    def __init__(self, server: AppServer) -> None:
        self.server = server
        self._tasks: list[asyncio.Task[None]] = []
        self._clients: list[Client] = []

    async def serve(self, ours: socket.socket) -> None:
        await self.server.serve(SocketChannel(*await asyncio.open_connection(sock=ours, limit=LONGEST_LINE)))

    async def client(self) -> Client:
        ours, theirs = socket.socketpair()
        self._tasks.append(asyncio.create_task(self.serve(ours)))
        client = Client(*await asyncio.open_connection(sock=theirs, limit=LONGEST_LINE))
        self._clients.append(client)
        await client.ask("initialize", protocol_version=1)
        return client

    async def aclose(self) -> None:
        async with asyncio.timeout(BOUND_S):
            await self.server.aclose()
            await asyncio.gather(*self._tasks)
        for client in self._clients:
            await client.leave()


@contextlib.asynccontextmanager
async def serving(host: FakeHost, idle_s: float = 1000.0) -> AsyncIterator[Place]:
    def worded(event: Any, _: Any) -> Any:
        return msgspec.structs.replace(event, error=msgspec.structs.replace(event.error, hint="do this"))

    place = Place(AppServer(host, ServerFacts("1.0", "/work", idle_s, worded)))
    try:
        yield place
    finally:
        await place.aclose()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(BOUND_S):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_client_that_never_reads_is_let_go_and_the_session_goes_on() -> None:
    host = FakeHost()
    ours, theirs = socket.socketpair()
    async with serving(host) as place:
        reads = await place.client()
        session = (await reads.ask("session/open"))["session_id"]
        stuck = asyncio.create_task(place.serve(ours))
        theirs.sendall(
            b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocol_version": 1}}\n'
            + json.dumps({"id": 2, "method": "session/open", "params": {"session_id": session}}).encode()
            + b"\n"
        )
        answers = b""
        while b'"id":2' not in answers:
            answers += await asyncio.to_thread(theirs.recv, 100_000)
        for number in range(400):
            host.opened[0].emit(LONG)
            await reads.until_seq(number + 1)
        async with asyncio.timeout(BOUND_S):
            await stuck
        assert [each["seq"] for each in reads.events] == list(range(1, 401))
        assert (await reads.ask("session/list"))["open"] == [session]
    theirs.close()


async def test_output_is_joined_for_whoever_lags() -> None:
    host = FakeHost()
    async with serving(host) as place:
        client = await place.client()
        await client.ask("session/open")
        for number in range(20_000):
            host.opened[0].emit(ToolOutput(call_id="c", text=f"{number:0199}\n"))
        await client.until_seq(20_000)
        text = "".join(each["text"] for each in client.events)
        assert text == "".join(f"{number:0199}\n" for number in range(20_000))
        assert len(client.events) < 20_000


async def test_an_open_that_was_cancelled_leaves_no_session_behind() -> None:
    host = FakeHost()
    async with serving(host, idle_s=0.02) as place:
        client = await place.client()
        host.may_open.clear()
        number = client.begin("session/open")
        await until(lambda: host.openings)
        client.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": number}})
        assert (await client.answer(number))["error"]["code"] == -32800
        host.may_open.set()
        await until(lambda: host.opened)
        while (await client.ask("session/list"))["open"]:
            await asyncio.sleep(0.005)


async def test_a_session_is_idle_only_without_clients_work_and_news() -> None:
    host = FakeHost()
    async with serving(host, idle_s=0.02) as place:
        first, second = await place.client(), await place.client()
        watched, left = [(await first.ask("session/open"))["session_id"] for _ in range(2)]
        host.opened[1].busy = True
        await first.ask("session/leave", session_id=left)
        for number in range(20):
            host.opened[0].emit(Notice(level="info", text=str(number)))
            await asyncio.sleep(0.01)
        assert (await second.ask("session/list"))["open"] == [watched, left]
        host.opened[1].busy = False
        while left in (await second.ask("session/list"))["open"]:
            await asyncio.sleep(0.005)
        assert (await second.ask("session/list"))["open"] == [watched]


async def test_clients_that_resume_a_session_at_the_same_time_share_it() -> None:
    host = FakeHost("abcdef")
    async with serving(host) as place:
        clients = [await place.client() for _ in range(3)]
        host.may_open.clear()
        numbers = [each.begin("session/open", session_id="abc") for each in clients]
        await until(lambda: host.openings)
        host.may_open.set()
        answers = [await each.answer(number) for each, number in zip(clients, numbers, strict=True)]
        assert {each["result"]["session_id"] for each in answers} == {"abcdef"} and len(host.opened) == 1


async def test_a_session_that_is_being_closed_is_opened_afterwards() -> None:
    host = FakeHost("abcdef")
    async with serving(host) as place:
        one, two = await place.client(), await place.client()
        await one.ask("session/open", session_id="abcdef")
        host.opened[0].busy = True
        host.opened[0].may_close.clear()
        closing = one.begin("session/close", session_id="abcdef")
        await until(lambda: host.opened[0].submitted)
        assert host.opened[0].submitted == [Interrupt("terminated")]
        opening = two.begin("session/open", session_id="abcdef")
        assert (await two.ask("session/list"))["open"] == [] and len(host.openings) == 1
        host.opened[0].may_close.set()
        assert (await one.answer(closing))["result"] == {}
        assert (await two.answer(opening))["result"]["started"] and len(host.opened) == 2


async def test_a_session_that_is_not_saved_is_shared_and_not_deleted_while_open() -> None:
    host = FakeHost()
    async with serving(host) as place:
        one, two = await place.client(), await place.client()
        session = (await one.ask("session/open", save=False))["session_id"]
        assert not (await two.ask("session/open", session_id=session))["started"]
        refused = await two.answer(two.begin("session/delete", session_id=session))
        assert "`session/close` closes it" in refused["error"]["message"]


async def test_an_error_is_worded_for_the_client() -> None:
    host = FakeHost()
    async with serving(host) as place:
        client = await place.client()
        session = (await client.ask("session/open"))["session_id"]
        host.opened[0].emit(TurnFailed(stop_reason="auth_error", error=ErrorInfo("auth", "no")))
        assert (await client.until(lambda event: True))["error"]["hint"] == "do this"
        since = await client.ask("events/since", session_id=session, seq=0)
        assert since["events"][0]["error"]["hint"] == "do this"


async def test_events_that_are_gone_are_said_to_be() -> None:
    host = FakeHost()
    async with serving(host) as place:
        client = await place.client()
        session = (await client.ask("session/open"))["session_id"]
        for number in range(50):
            host.opened[0].emit(LONG)
            await client.until_seq(number + 1)
        for number in (
            client.begin("events/since", session_id=session, seq=3),
            client.begin("session/open", session_id=session, after=3),
        ):
            error = (await client.answer(number))["error"]
            assert error["code"] == -32002 and 4 < error["data"]["oldest"] <= 50
        oldest = error["data"]["oldest"]
        since = await client.ask("events/since", session_id=session, seq=oldest - 1)
        assert [each["seq"] for each in since["events"]] == list(range(oldest, 51))


async def test_opening_again_begins_anew_where_one_says() -> None:
    host = FakeHost()
    async with serving(host) as place:
        client = await place.client()
        session = (await client.ask("session/open"))["session_id"]
        host.opened[0].emit(*(Notice(level="info", text=str(number)) for number in range(3)))
        await client.until_seq(3)
        client.events.clear()
        await client.ask("session/open", session_id=session, after=1)
        host.opened[0].emit(Notice(level="info", text="last"))
        await client.until(lambda event: event["text"] == "last")
        assert [each["seq"] for each in client.events] == [2, 3, 4]


@pytest.mark.parametrize("many", [1, 50])
async def test_the_order_of_operations_is_that_of_the_lines(many: int) -> None:
    host = FakeHost()
    async with serving(host) as place:
        client = await place.client()
        session = (await client.ask("session/open"))["session_id"]
        numbers = [client.begin("user_input", session_id=session, text=str(at)) for at in range(many)]
        for number in numbers:
            await client.answer(number)
        assert host.opened[0].submitted == [UserInput(str(at)) for at in range(many)]


async def test_what_is_being_opened_does_not_hold_up_the_end() -> None:
    host = FakeHost()
    async with serving(host) as place:
        client = await place.client()
        host.may_open.clear()
        opening = client.begin("session/open")
        await until(lambda: host.openings)
        async with asyncio.timeout(BOUND_S):
            await place.server.aclose()
        assert "error" in await client.answer(opening) and not host.opened


async def test_when_the_server_ends_the_last_events_come_first() -> None:
    host = FakeHost()
    async with serving(host) as place:
        client = await place.client()
        await client.ask("session/open")
        assert await client.ask("shutdown") == {}
        assert place.server.over.is_set()
        await place.server.aclose()
        await client.rest()
        assert [each["type"] for each in client.events] == ["session_closed"]
