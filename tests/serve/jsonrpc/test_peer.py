"""Two sides of a connection over real pipes: requests, answers, errors, and what is no message."""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent_cli.serve.jsonrpc import messages
from agent_cli.serve.jsonrpc.channel import PipeChannel, SocketChannel
from agent_cli.serve.jsonrpc.messages import Disconnected, RpcError
from agent_cli.serve.jsonrpc.peer import Peer
from tests.rows import each_row


class Other:
    """The other side, by hand."""

    def __init__(self, sends: int, receives: int) -> None:
        self.sends, self._file = sends, os.fdopen(receives, "rb")

    def send(self, *lines: Any) -> None:
        for line in lines:
            os.write(self.sends, line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")

    async def receive(self) -> dict[str, Any]:
        line = await asyncio.wait_for(asyncio.to_thread(self._file.readline), 20)
        found: dict[str, Any] = json.loads(line)
        assert found.pop("jsonrpc") == "2.0"
        return found

    def close(self) -> None:
        os.close(self.sends)


class Asked:
    """What the handler was asked, and its answers."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.release = asyncio.Event()
        self.ended: list[str] = []

    async def __call__(self, method: str, params: dict[str, Any]) -> Any:
        self.calls.append((method, params))
        if method == "wait":
            try:
                await self.release.wait()
            finally:
                self.ended.append(method)
        if method == "wrong":
            raise RpcError(messages.INVALID_PARAMS, "no", {"field": "x"})
        if method == "much":
            return "x" * 65_536
        if method == "broken":
            raise ValueError("oh")
        return {"method": method}


@contextlib.asynccontextmanager
async def connected(*, blocks: bool = True) -> AsyncIterator[tuple[Other, Peer, Asked, asyncio.Task[None]]]:
    (there, ours_in), (ours_out, back) = (os.pipe()[::-1] for _ in range(2))
    for end in (ours_in, ours_out):
        os.set_blocking(end, blocks)
    other, asked = Other(there, back), Asked()
    channel = PipeChannel(ours_in, ours_out)
    peer = Peer(channel, asked)
    running = asyncio.create_task(peer.run())
    try:
        yield other, peer, asked, running
    finally:
        with contextlib.suppress(OSError):
            other.close()
        async with asyncio.timeout(20):
            await running
        await channel.aclose()


async def test_requests_are_answered_each_with_its_id() -> None:
    async with connected() as (other, _, asked, _running):
        other.send({"jsonrpc": "2.0", "id": 1, "method": "wait"}, {"id": "b", "method": "go", "params": {"x": 1}})
        assert await other.receive() == {"id": "b", "result": {"method": "go"}}
        asked.release.set()
        assert await other.receive() == {"id": 1, "result": {"method": "wait"}}
        assert asked.calls == [("wait", {}), ("go", {"x": 1})]


@each_row(
    ("line", "code", "identifier"),
    [
        (b"{", messages.PARSE_ERROR, None),
        (b"\xff\xfe\n", messages.PARSE_ERROR, None),
        (b'{"id": 1, "method": "\xff"}\n', messages.PARSE_ERROR, None),
        (b'"text"\n', messages.INVALID_REQUEST, None),
        (b"[" * 50_000 + b"\n", messages.PARSE_ERROR, None),
        ([{"id": 1, "method": "go"}], messages.INVALID_REQUEST, None),
        ({"id": 1.5, "method": "go"}, messages.INVALID_REQUEST, None),
        ({"id": True, "method": "go"}, messages.INVALID_REQUEST, None),
        ({"id": 4}, messages.INVALID_REQUEST, 4),
        ({"id": 4, "method": 5}, messages.INVALID_REQUEST, 4),
        ({"id": 4, "method": "go", "params": [1]}, messages.INVALID_PARAMS, 4),
    ],
)
async def test_what_is_no_message_is_answered_with_an_error_and_the_rest_goes_on(
    line: Any, code: int, identifier: Any
) -> None:
    async with connected() as (other, _, _asked, _running):
        other.send(line, *([b"\n"] if line == b"{" else []), b"\n  \n", {"id": 9, "method": "go"})
        refused, answered = await other.receive(), await other.receive()
    assert (refused["id"], refused["error"]["code"]) == (identifier, code)
    assert answered == {"id": 9, "result": {"method": "go"}}


@pytest.mark.parametrize("response", [{"id": None}, {}, {"id": 77}])
async def test_an_error_about_no_request_of_ours_gets_no_answer(response: dict[str, Any]) -> None:
    """An error in answer could be answered with an error, without end."""
    async with connected() as (other, _, _asked, _running):
        other.send({**response, "error": {"code": -32602, "message": "no"}}, {"id": 9, "method": "go"})
        assert await other.receive() == {"id": 9, "result": {"method": "go"}}


async def test_errors_of_a_request_are_its_answer() -> None:
    async with connected() as (other, _, _asked, _running):
        other.send({"id": 1, "method": "wrong"}, {"id": 2, "method": "broken"}, {"method": "wrong"})
        assert (await other.receive())["error"] == {"code": -32602, "message": "no", "data": {"field": "x"}}
        assert (await other.receive())["error"] == {"code": -32603, "message": "ValueError: oh"}


async def test_a_request_is_cancelled_by_the_other_side() -> None:
    async with connected() as (other, _, asked, _running):
        other.send({"id": 1, "method": "wait"}, {"id": 1, "method": "go"})
        assert (await other.receive())["error"]["message"] == "A request with the id 1 still runs."
        other.send({"method": "$/cancel_request", "params": {"requestId": 1}})
        assert (await other.receive())["error"]["code"] == messages.CANCELLED
        assert asked.ended == ["wait"]


async def test_a_request_that_is_cancelled_before_it_begins_is_answered_too() -> None:
    async with connected() as (other, _, asked, _running):
        cancel = json.dumps({"method": "$/cancel_request", "params": {"requestId": 1}}).encode() + b"\n"
        other.send(json.dumps({"id": 1, "method": "wait"}).encode() + b"\n" + cancel)
        assert (await other.receive())["error"]["code"] == messages.CANCELLED
        other.send({"id": 1, "method": "go"})
        assert await other.receive() == {"id": 1, "result": {"method": "go"}}
        assert asked.ended in ([], ["wait"])


async def test_requests_of_ours_have_answers_errors_and_ends() -> None:
    async with connected() as (other, peer, _asked, running):
        first, second, third = (asyncio.create_task(peer.request("ask", {"n": n})) for n in range(3))
        sent = [await other.receive() for _ in range(3)]
        assert [each["params"] for each in sent] == [{"n": n} for n in range(3)]
        other.send({"id": sent[1]["id"], "error": {"code": 7, "message": "not now"}}, {"id": 99, "result": 1})
        other.send({"id": sent[0]["id"], "result": [1, 2]}, {"id": sent[0]["id"], "result": "twice"})
        assert await first == [1, 2]
        with pytest.raises(RpcError, match="not now"):
            await second
        other.close()
        with pytest.raises(Disconnected):
            await third
        await asyncio.wait_for(running, 20)
        with pytest.raises(Disconnected):
            await peer.request("ask", {})


async def test_a_request_of_ours_that_is_cancelled_is_called_off() -> None:
    async with connected() as (other, peer, _asked, _running):
        asking = asyncio.create_task(peer.request("ask", {}))
        identifier = (await other.receive())["id"]
        asking.cancel()
        assert await other.receive() == {"method": "$/cancel_request", "params": {"requestId": identifier}}


async def test_when_the_other_side_is_gone_what_runs_for_it_is_cancelled() -> None:
    async with connected() as (other, _, asked, running):
        other.send({"id": 1, "method": "wait"}, {"id": 2, "method": "go"})
        await other.receive()
        other.close()
        await asyncio.wait_for(running, 20)
        assert asked.ended == ["wait"]


async def test_more_requests_than_may_run_at_once_are_refused() -> None:
    async with connected() as (other, _, asked, _running):
        other.send(*({"id": n, "method": "wait"} for n in range(300)))
        refused = [(await other.receive())["error"]["code"] for _ in range(300 - 256)]
        assert set(refused) == {messages.OVERLOADED}
        asked.release.set()
        assert len({(await other.receive())["id"] for _ in range(256)}) == 256


async def test_texts_that_are_no_unicode_are_received() -> None:
    async with connected() as (other, _, asked, _running):
        other.send(b'{"id": 1, "method": "go", "params": {"name": "a\\udcff"}}\n')
        assert await other.receive() == {"id": 1, "result": {"method": "go"}}
        other.send(b'{"id": "\\u00zz"}\n')
        assert asked.calls == [("go", {"name": "a\udcff"})]
        assert (await other.receive())["error"]["code"] == messages.PARSE_ERROR


async def test_texts_that_are_no_unicode_are_sent() -> None:
    async with connected() as (other, peer, _asked, _running):
        peer.notify("tell", {"name": "a\udcff"})
        assert (await other.receive())["params"] == {"name": "a\udcff"}


async def test_writing_waits_for_a_reader_that_is_slow() -> None:
    async with connected() as (other, peer, _asked, _running):
        for _ in range(100):
            peer.notify("tell", {"text": "x" * 10_000})
        waiting = asyncio.create_task(peer.writable())
        await asyncio.sleep(0)
        assert not waiting.done()
        for _ in range(100):
            await other.receive()
        async with asyncio.timeout(20):
            await waiting


async def test_answers_that_nobody_reads_do_not_pile_up() -> None:
    async with connected() as (other, peer, _asked, _running):
        lines = [json.dumps({"id": n, "method": "much"}).encode() + b"\n" for n in range(1000)]
        sending = asyncio.create_task(asyncio.to_thread(other.send, *lines))
        most = 0
        for _ in lines:
            assert len((await other.receive())["result"]) == 65_536
            most = max(most, peer._channel.unsent)
        await sending
        assert 4_000_000 < most < 24_000_000


async def test_pipes_that_another_program_has_made_non_blocking_lose_nothing() -> None:
    async with connected(blocks=False) as (other, peer, _asked, _running):
        for number in range(50):
            peer.notify("tell", {"text": f"{number}:" + "x" * 10_000})
        other.send({"id": 1, "method": "go"})
        found = [await other.receive() for _ in range(51)]
        told = [each["params"]["text"].partition(":")[0] for each in found if "params" in each]
        assert told == [str(number) for number in range(50)]
        assert {"id": 1, "result": {"method": "go"}} in found


async def test_the_last_message_needs_no_line_feed() -> None:
    async with connected() as (other, _, _asked, _running):
        other.send(b'{"id": 1, "method": "go"}')
        other.close()
        assert await other.receive() == {"id": 1, "result": {"method": "go"}}
    ours, theirs = socket.socketpair()
    channel = SocketChannel(*await asyncio.open_connection(sock=ours))
    theirs.sendall(b'{"id": 1, "method": "go"}')
    theirs.shutdown(socket.SHUT_WR)
    await asyncio.wait_for(Peer(channel, Asked()).run(), 20)
    assert json.loads(theirs.recv(4096)) == {"jsonrpc": "2.0", "id": 1, "result": {"method": "go"}}
    await channel.aclose()
    theirs.close()


async def test_a_socket_is_a_channel_too() -> None:
    ours, theirs = socket.socketpair()
    channel = SocketChannel(*await asyncio.open_connection(sock=ours))
    running = asyncio.create_task(Peer(channel, Asked()).run())
    other = Other(theirs.fileno(), os.dup(theirs.fileno()))
    other.send({"id": 1, "method": "go"}, b'{"half": ')
    assert await other.receive() == {"id": 1, "result": {"method": "go"}}
    theirs.shutdown(socket.SHUT_WR)
    await asyncio.wait_for(running, 20)
    await channel.aclose()
    theirs.close()
