"""The proxy of commands: real sockets on loopback; allowed hosts are reached, all others are not."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from agent_cli.net.host_proxy import HostProxy
from tests.model.network import refusing_port
from tests.rows import each_row


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers each request with its own head."""
    head = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + head)
    await writer.drain()
    writer.close()


@asynccontextmanager
async def proxied(
    allowed: Sequence[str], private: Sequence[str] = ("site.test",)
) -> AsyncIterator[tuple[HostProxy, int, int]]:
    """A proxy, its port, and the port of a server that every name leads to."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    listening = socket.create_server(("127.0.0.1", 0))
    proxy = HostProxy(lambda host: host in allowed, private_hosts=private, resolve=resolve)
    await proxy.serve(listening)
    try:
        yield proxy, listening.getsockname()[1], server.sockets[0].getsockname()[1]
    finally:
        await proxy.aclose()
        server.close()


async def said(port: int, request: str) -> str:
    """What the proxy answers to raw bytes."""
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request.encode("latin-1"))
        writer.write_eof() if not request.startswith("CONNECT") else None
        answer = await reader.read(-1)
        writer.close()
    return answer.decode("latin-1")


async def test_a_plain_request_is_passed_on_without_what_was_for_the_proxy() -> None:
    async with proxied(["site.test"]) as (_, port, there):
        request = f"GET http://site.test:{there}/a?b HTTP/1.1\r\nHost: site.test\r\nProxy-Authorization: x\r\nA: b\r\n\r\n"
        answer = await said(port, request)
    assert "GET /a?b HTTP/1.1\r\nHost: site.test\r\nA: b\r\nConnection: close" in answer and "Proxy-" not in answer


async def test_a_tunnel_passes_bytes_both_ways() -> None:
    async with proxied(["site.test"]) as (_, port, there):
        answer = await said(port, f"CONNECT site.test:{there} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nX: y\r\n\r\n")
    assert answer.startswith("HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK") and "X: y" in answer


@each_row(
    "host",
    ["other.test", "sub.site.test", "site.test.evil.test", "127.0.0.1", "localhost", "[::1]", "169.254.169.254"],
)
@each_row("form", ["CONNECT {0}:443 HTTP/1.1\r\n\r\n", "GET http://{0}/ HTTP/1.1\r\nHost: site.test\r\n\r\n"])
async def test_hosts_that_are_not_allowed_are_refused_and_remembered(host: str, form: str) -> None:
    async with proxied(["site.test"]) as (proxy, port, _):
        answer = await said(port, form.format(host))
        assert answer.startswith("HTTP/1.1 403 Forbidden") and "fetch(HOST)" in answer
        assert proxy.take_refused() == (host.strip("[]"),) and proxy.take_refused() == ()


async def test_an_allowed_name_that_leads_to_a_private_network_is_refused() -> None:
    async with proxied(["rebound.example.org"]) as (_, port, there):
        answer = await said(port, f"CONNECT rebound.example.org:{there} HTTP/1.1\r\n\r\n")
    assert answer.startswith("HTTP/1.1 403") and "private" in answer


@each_row(
    "request_", ["", "x\r\n\r\n", "GET / HTTP/1.1\r\nHost: site.test\r\n\r\n", "CONNECT site.test HTTP/1.1\r\n\r\n",
    "CONNECT site.test:99999 HTTP/1.1\r\n\r\n", "A" * 100_000, "GET http://u:p@site.test/ HTTP/1.1\r\n\r\n"],
)  # fmt: skip
async def test_what_is_no_request_for_a_proxy_reaches_nobody(request_: str) -> None:
    async with proxied(["site.test"]) as (_, port, _there):
        if request_.startswith("CONNECT"):
            request_ = request_ + "\r\n"
        answer = await said(port, request_)
    assert answer[:12] in ("HTTP/1.1 400", "HTTP/1.1 403", ""), answer


async def test_a_host_that_does_not_answer_is_told() -> None:
    async with proxied(["site.test"]) as (_, port, _there):
        with refusing_port() as closed:
            assert (await said(port, f"CONNECT site.test:{closed} HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 502")


async def test_closing_ends_open_tunnels() -> None:
    async with proxied(["site.test"]) as (proxy, port, there):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"CONNECT site.test:{there} HTTP/1.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        await proxy.aclose()
        async with asyncio.timeout(60):
            assert await reader.read(-1) == b""
        writer.close()


async def test_a_flood_of_connections_does_not_take_all_descriptors() -> None:
    async with proxied(["site.test"]) as (_, port, there):
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
        await asyncio.sleep(0.05)
        ended = [await _ended(reader) for reader, _ in held]
        assert sum(ended) >= 100
        for _, writer in held:
            writer.close()
        await asyncio.sleep(0.05)
        assert "200" in await said(port, f"CONNECT site.test:{there} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")


async def _ended(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(0.001):
            return await reader.read(1) == b""
    except TimeoutError:
        return False


@asynccontextmanager
async def forwarded(allowed: Sequence[str]) -> AsyncIterator[tuple[HostProxy, int, int]]:
    """A proxy that passes a port on, that port, and the one it leads to."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    there = server.sockets[0].getsockname()[1]
    listening = socket.create_server(("127.0.0.1", 0))
    proxy = HostProxy(lambda host: host in [name.format(there) for name in allowed])
    await proxy.forward(listening, "localhost", there)
    try:
        yield proxy, listening.getsockname()[1], there
    finally:
        await proxy.aclose()
        server.close()


async def test_a_port_is_passed_on_as_it_is() -> None:
    async with forwarded(["localhost:{}"]) as (proxy, port, _):
        assert "X: y" in await said(port, "HELLO\r\nX: y\r\n\r\n") and proxy.connected == 1


@pytest.mark.parametrize("allowed", ["localhost", "localhost:1", "127.0.0.1:{}"])
async def test_a_port_that_is_not_allowed_is_not_passed_on(allowed: str) -> None:
    async with forwarded([allowed]) as (proxy, port, there):
        assert await said(port, "") == ""
        assert proxy.take_refused() == (f"localhost:{there}",) and proxy.connected == 0
