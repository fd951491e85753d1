"""Requests over real sockets: connections that are kept, addresses, encodings, and servers that answer early."""

import asyncio
import contextlib
import gzip
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from agent_cli.config.schema import Timeouts
from agent_cli.model.transport import hops
from agent_cli.model.transport.byte_stream import ByteStream
from agent_cli.model.transport.http import Connection, is_local_url
from agent_cli.model.types.base import ModelError
from tests.rows import each_row

Serve = Callable[["Peer"], Awaitable[None]]


class Peer:
    """A server's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def request(self) -> tuple[str, dict[str, str], bytes]:
        """First line, headers and body; raises asyncio.IncompleteReadError at the end."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
        return head[0], headers, await self.reader.readexactly(int(headers.get("content-length", 0)))

    async def answer(self, body: bytes, *headers: str, status: str = "200 OK") -> None:
        lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]
        self.writer.write("\r\n".join(lines).encode() + body)
        await self.writer.drain()


@contextlib.asynccontextmanager
async def served(serve: Serve) -> AsyncIterator[tuple[str, list[Peer]]]:
    """A server's address, and its connections in the order they came."""
    peers: list[Peer] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.append(Peer(reader, writer))
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            await serve(peers[-1])
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", peers
    finally:
        server.close()


async def said(connection: Connection, content: bytes = b"{}") -> tuple[int, bytes]:
    async with connection.post("/chat", content) as response:
        return response.status, await response.read()


async def forever(peer: Peer) -> None:
    while True:
        line, headers, body = await peer.request()
        await peer.answer(f"{line}|{headers['host']}|{headers.get('authorization')}|{body.decode()}".encode())


async def test_a_connection_is_kept_for_the_next_request() -> None:
    async with served(forever) as (place, peers):
        connection = Connection(f"http://{place}/v1/", {"authorization": "Bearer k"}, Timeouts())
        first, second = await said(connection, b'{"a":1}'), await connection.get("/models?x=ä b", 10)
        await connection.aclose()
    assert first == (200, f'POST /v1/chat HTTP/1.1|{place}|Bearer k|{{"a":1}}'.encode())
    assert second == (200, f"GET /v1/models?x=%C3%A4%20b HTTP/1.1|{place}|Bearer k|".encode())
    assert len(peers) == 1


async def test_headers_of_the_configuration_take_the_place_of_ours() -> None:
    async def serve(peer: Peer) -> None:
        _, headers, _ = await peer.request()
        await peer.answer(f"{headers['host']}|{headers['accept-encoding']}".encode())

    async with served(serve) as (place, _):
        own = {"Host": "models.example", "Accept-Encoding": "identity"}
        connection = Connection(f"http://{place}/v1", own, Timeouts())
        assert await said(connection) == (200, b"models.example|identity")


async def test_requests_at_the_same_time_have_connections_of_their_own() -> None:
    async with served(forever) as (place, peers):
        connection = Connection(f"http://{place}/v1", {}, Timeouts())
        assert {each[0] for each in await asyncio.gather(*(said(connection) for _ in range(5)))} == {200}
        assert len(peers) == 5
        await said(connection)
        assert len(peers) == 5
        await connection.aclose()


async def test_an_answer_that_is_left_early_closes_its_connection() -> None:
    gone = asyncio.Event()

    async def serve(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n")
        await peer.reader.read()
        gone.set()

    async with served(serve) as (place, _):
        connection = Connection(f"http://{place}/v1", {}, Timeouts())
        async with connection.post("/chat", b"{}") as response, contextlib.aclosing(response.chunks()) as chunks:
            assert await anext(chunks) == b"hi"
        await asyncio.wait_for(gone.wait(), 20)


async def test_a_kept_connection_that_the_server_has_closed_is_not_used() -> None:
    closed = asyncio.Event()

    async def once(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"ok")
        peer.writer.close()
        closed.set()

    async with served(once) as (place, peers):
        connection = Connection(f"http://{place}/v1", {}, Timeouts())
        for _ in range(3):
            closed.clear()
            assert await said(connection) == (200, b"ok")
            await closed.wait()
            async with asyncio.timeout(20):
                while connection._idle and connection._idle[-1][0].is_quiet:
                    await asyncio.sleep(0.01)
        assert len(peers) == 3


async def test_a_request_on_a_kept_connection_that_the_server_is_closing_is_sent_over_a_new_one() -> None:
    async def once(peer: Peer) -> None:
        _, _, body = await peer.request()
        await peer.answer(body)
        await peer.reader.readuntil(b"\r\n\r\n")

    async with served(once) as (place, peers):
        connection = Connection(f"http://{place}/v1", {}, Timeouts())
        bodies = [(await said(connection, body))[1] for body in (b"1", b"2", b"3")]
    assert (bodies, len(peers)) == ([b"1", b"2", b"3"], 3)


async def test_a_server_that_closes_a_new_connection_too_is_not_asked_a_third_time() -> None:
    async def serve(peer: Peer) -> None:
        await peer.request()
        if peer is peers[0]:
            await peer.answer(b"ok")
            await peer.request()

    async with served(serve) as (place, peers):
        connection = Connection(f"http://{place}/v1", {}, Timeouts())
        await said(connection)
        with pytest.raises(ModelError, match="no answer came"):
            await said(connection)
    assert len(peers) == 2


async def test_a_server_that_answers_before_it_has_read_everything_is_heard() -> None:
    async def refuse(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.answer(b"too large", "connection: close", status="413 Too Large")
        peer.writer.close()

    async with served(refuse) as (place, _):
        assert await said(Connection(f"http://{place}/v1", {}, Timeouts()), b"x" * 200_000) == (413, b"too large")


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"hello", mtime=0)),
        ("gzip", gzip.compress(b"hel", mtime=0) + gzip.compress(b"lo", mtime=0)),
        ("deflate", zlib.compress(b"hello")),
        ("deflate", zlib.compress(b"hello")[2:-4]),
        ("identity", b"hello"),
    ],
    ids=["gzip", "gzip in members", "deflate", "deflate without its header", "identity"],
)
async def test_a_compressed_answer_is_read(encoding: str, packed: bytes) -> None:
    async def serve(peer: Peer) -> None:
        await peer.request()
        await peer.answer(packed, f"content-encoding: {encoding}")

    async with served(serve) as (place, _):
        assert await said(Connection(f"http://{place}/v1", {}, Timeouts())) == (200, b"hello")


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"", "the server closed the connection: no answer came"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "what came is not HTTP: 'SSH-2.0-OpenSSH_9.2'"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "what came is not HTTP but TLS: the address needs https://"),
        (b"HTTP/1.1 200 OK\r\ncontent-", "only part of the headers came"),
        (b"220 mail.example ESMTP\r\n\r\n", "what the server sent is not HTTP (illegal status line"),
        (b"HTTP/1.1 200 OK\r\n" + b"x-a: b\r\n" * 20_000, "more than 100,000 bytes of headers"),
    ],
    ids=["nothing", "ssh", "tls", "part", "mail", "headers"],
)
async def test_what_came_in_the_place_of_an_answer_is_told(sent: bytes, told: str) -> None:
    async def serve(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(sent)
        await peer.writer.drain()
        peer.writer.close()

    async with served(serve) as (place, _):
        with pytest.raises(ModelError) as found:
            await said(Connection(f"http://{place}/v1", {}, Timeouts()))
    assert found.value.kind == "connection" and found.value.retryable and told in found.value.message


@pytest.mark.parametrize(
    ("encoding", "packed"), [("gzip", b"no gzip"), ("br", b"hello"), ("deflate", b"\xff\xff")]
)
async def test_a_compressed_answer_that_cannot_be_read_is_an_error(encoding: str, packed: bytes) -> None:
    async def serve(peer: Peer) -> None:
        await peer.request()
        await peer.answer(packed, f"content-encoding: {encoding}")

    async with served(serve) as (place, _):
        with pytest.raises(ModelError, match="the answer cannot be decompressed") as found:
            await said(Connection(f"http://{place}/v1", {}, Timeouts()))
    assert found.value.kind == "malformed"


async def test_user_name_and_password_of_an_address_are_sent() -> None:
    async with served(forever) as (place, _):
        connection = Connection(f"http://us%40er:p%3Aw@{place}/v1", {"authorization": "Bearer k"}, Timeouts())
        assert b"|Basic dXNAZXI6cDp3|" in (await said(connection))[1]


@pytest.mark.parametrize(
    ("url", "place", "header"),
    [
        ("https://api.example.com/v1", "api.example.com:443", "api.example.com"),
        ("HTTP://Example.com:8080", "example.com:8080", "example.com:8080"),
        ("http://[::1]:80/v1", "[::1]:80", "[::1]"),
        ("http://bücher.example/", "xn--bcher-kva.example:80", "xn--bcher-kva.example"),
    ],
)
def test_the_server_of_an_address(url: str, place: str, header: str) -> None:
    target = hops.target_of(url)
    assert (target.place, target.host_header) == (place, header)


@each_row(
    "url",
    [
        "ftp://x/", "http://", "localhost:80", "http://x:port/", "http://a b/", "http://[::1/", "http://..x/",
        f"http://{'x' * 64}.example/",
    ],
)  # fmt: skip
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ModelError, match="is not a usable address") as found:
        hops.target_of(url)
    assert found.value.kind == "not_found"


def test_a_length_that_the_request_decides_is_not_configured() -> None:
    with pytest.raises(ModelError, match="the content-length header depends on the request"):
        Connection("http://127.0.0.1/v1", {"Content-Length": "3"}, Timeouts())


async def test_of_several_addresses_the_first_that_takes_the_connection_wins() -> None:
    opened: list[str] = []

    async def refused() -> ByteStream:
        raise ConnectionRefusedError(111, "refused")

    async def silent() -> ByteStream:
        opened.append("silent")
        await asyncio.Event().wait()
        raise AssertionError

    async with served(forever) as (place, _):
        port = int(place.rpartition(":")[2])
        stream = await hops._first([refused, silent, lambda: hops._to_address("127.0.0.1", port), silent])
        assert stream.is_quiet and opened == ["silent"]
        stream.close()
    with pytest.raises(ConnectionRefusedError):
        await hops._first([refused, refused])


def test_addresses_of_both_families_are_tried_by_turns() -> None:
    assert hops._alternating(["::1", "::1", "::2", "1.1.1.1"]) == ["::1", "1.1.1.1", "::2"]


async def test_a_reader_that_waits_holds_the_server_up() -> None:
    """What a server sends is not all taken into memory."""
    total = 64_000_000

    async def flood(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {total}\r\n\r\n".encode())
        for _ in range(total // 1_000_000):
            peer.writer.write(b"x" * 1_000_000)
            await peer.writer.drain()

    async with served(flood) as (place, peers):
        connection = Connection(f"http://{place}/v1", {}, Timeouts())
        async with connection.post("/chat", b"{}") as response, contextlib.aclosing(response.chunks()) as chunks:
            size = len(await anext(chunks))
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert peers[0].writer.transport.get_write_buffer_size() > 0
            async for chunk in chunks:
                size += len(chunk)
        assert size == total


async def test_what_has_come_together_is_read_at_once_and_before_what_broke_it_off() -> None:
    async def serve(peer: Peer) -> None:
        await peer.request()
        head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        peer.writer.write(head + b"3\r\nabc\r\n2\r\nde\r\nno size\r\n")
        await peer.writer.drain()

    async with served(serve) as (place, _):
        connection = Connection(f"http://{place}/v1", {}, Timeouts())
        async with connection.post("/chat", b"{}") as response:
            chunks = response.chunks()
            assert await anext(chunks) == b"abcde"
            with pytest.raises(ModelError) as caught:
                await anext(chunks)
    assert caught.value.kind == "connection"


@each_row("host", ["localhost:11434", "user:pw@10.0.0.1", "[::1]:8080", "box", "box.local", "192.168.1.2"])
def test_a_server_on_this_network_is_known_by_its_address(host: str) -> None:
    assert is_local_url(f"http://{host}/v1")


@pytest.mark.parametrize("host", ["api.openai.com", "user:pw@api.example.com:8443", "8.8.8.8"])
def test_any_other_server_is_remote(host: str) -> None:
    assert not is_local_url(f"https://{host}/v1")
