"""The transport of 2024: found by falling back, long messages, addresses and redirects."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from agent_cli.mcp.types.client import ServerError
from agent_cli.mcp.types.definition import ServerDefinition
from tests.http_server import LoopbackServer
from tests.rows import each_row

from .world import SERVERS, Lab

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Run a server that answers every GET as the test says; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            answer(self)

    server = LoopbackServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/sse"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def to(url: str) -> ServerDefinition:
    return ServerDefinition(name="demo", transport="sse", url=url)


async def test_a_server_of_2024_is_found_by_falling_back(lab: Lab) -> None:
    """The older transport answers a POST to its one address with 405."""
    url = f"{await sse_server(lab)}/sse"
    client = await lab.connect(ServerDefinition(name="demo", transport="http", url=url))
    assert (await client.call("echo", {"text": "older"})).text == "older"
    direct = await lab.connect(to(url))
    assert (await direct.call("add", {"a": 1, "b": 2})).text == '3\n{"sum":3}'


async def test_a_server_of_2024_may_send_long_messages(lab: Lab) -> None:
    client = await lab.connect(to(f"{await sse_server(lab)}/sse"))
    assert len((await client.call("big", {"size": 3_000_000})).text) == 3_000_000
    assert (await client.call("echo", {"text": "still there"})).text == "still there"
    with pytest.raises(ServerError, match=r"demo .* sent an answer of more than 64 MB"):
        await client.call("big", {"size": 65_000_000})


async def test_an_answer_that_breaks_off_does_not_end_the_stream(lab: Lab) -> None:
    client = await lab.connect(to(f"{await sse_server(lab, '--torn')}/sse"))
    for text in ("one", "two"):
        assert (await client.call("echo", {"text": text})).text == text


@each_row(
    ("endpoint", "said"),
    [
        ("http://127.0.0.1:9/messages", "names another server for messages"),
        ("https://127.0.0.1/messages", "names another server for messages"),
        (None, "closed the connection before it named an address"),
    ],
)
async def test_a_server_of_2024_names_an_address_of_its_own(lab: Lab, endpoint: str | None, said: str) -> None:
    def stream(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        if endpoint is not None:
            handler.wfile.write(f"event: endpoint\ndata: {endpoint}\n\n".encode())

    with serving(stream) as url, pytest.raises(ServerError, match=said):
        await lab.connect(to(url))


async def test_a_stream_of_2024_follows_redirects_on_its_server_only(lab: Lab) -> None:
    address = await sse_server(lab)

    def elsewhere(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(307)
        handler.send_header("location", f"{address}/sse")
        handler.end_headers()

    with serving(elsewhere) as url, pytest.raises(ServerError, match="answered with HTTP 307 and no stream"):
        await lab.connect(to(url))


async def test_a_server_of_2024_that_is_gone_says_so(lab: Lab) -> None:
    with pytest.raises(ServerError, match=r"MCP server demo \(http://127.0.0.1:9/sse\) cannot be reached: "):
        await lab.connect(to("http://127.0.0.1:9/sse"))
    client = await lab.connect(to(f"{await sse_server(lab)}/sse"))
    with pytest.raises(ServerError, match="demo"):
        await client.call("crash", {})
    assert "demo" in await asyncio.wait_for(client.closed, 30)


async def sse_server(lab: Lab, *options: str) -> str:
    """Run the fault server on the older transport and return its address."""
    return await lab.serve(sys.executable, str(SERVERS / "sse_server.py"), *options)
