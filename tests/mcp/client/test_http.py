"""Servers behind HTTP: statuses in words, redirects, proxies, certificates, and limits."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import pytest

from agent_cli.mcp.types.client import LoginNeeded, ServerError, ServerGone
from agent_cli.mcp.types.definition import ServerDefinition
from tests.http_server import LoopbackServer

from .world import Lab

if TYPE_CHECKING:
    import httpx2

Answer = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    """Answers every POST as the test says."""

    server: "Server"
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append((self.path, dict(self.headers)))
        self.server.answer(self, message)

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers)))
        self.reply(405)

    do_DELETE = do_GET


class Server(LoopbackServer):
    """Records what it is asked."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.seen: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/mcp"


@contextmanager
def serving(answer: Answer) -> Iterator[Server]:
    server = Server(answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def status(code: int, body: bytes = b"", **headers: str) -> Answer:
    return lambda handler, message: handler.reply(code, body, **headers)


def hang_up(handler: Handler, message: dict[str, Any]) -> None:
    handler.close_connection = True


def to(url: str, **more: Any) -> ServerDefinition:
    return ServerDefinition(name="demo", transport="http", url=url, **more)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (status(401), LoginNeeded, "needs a login (HTTP 401 Unauthorized). Log in with `agent mcp login demo`."),
        (
            status(403, www_authenticate='Bearer error="insufficient_scope", scope="write"'),
            LoginNeeded,
            "needs a login with more rights: write (HTTP 403 Forbidden). Log in with `agent mcp login demo`.",
        ),
        (
            status(403, www_authenticate="Bearer scope=a:write, error=insufficient_scope"),
            LoginNeeded,
            "needs a login with more rights: a:write (HTTP 403 Forbidden). Log in with `agent mcp login demo`.",
        ),
        (status(403), ServerError, "does not allow this (HTTP 403 Forbidden)."),
        (status(404), ServerError, "has nothing at this address (HTTP 404 Not Found)."),
        (status(500, b"<h1>Oops</h1>", content_type="text/html"), ServerError, "answered with HTTP 500 Internal"),
        (status(503), ServerGone, "answered with HTTP 503 Service Unavailable."),
        (hang_up, ServerGone, "cannot be reached: Server disconnected without"),
        (status(200, b"<html>", content_type="text/html"), ServerError, "answered with a web page instead of"),
        (
            status(200, b'{"json', content_type="application/json"),
            ServerError,
            "sent an answer that is not a JSON-RPC",
        ),
        (status(200, b"hello", content_type="text/plain"), ServerError, "Unexpected content type: text/plain"),
    ],
)
async def test_statuses_are_said_in_words(lab: Lab, answer: Answer, kind: type, words: str) -> None:
    with serving(answer) as server, pytest.raises(ServerError) as caught:
        await lab.connect(to(f"{server.url}?key=secret"))
    text = str(caught.value)
    assert isinstance(caught.value, kind) and isinstance(caught.value, LoginNeeded) == (kind is LoginNeeded)
    assert text.startswith("The MCP server demo") and words in text and not text.endswith("..")
    assert "secret" not in text


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (status(401), "does not accept the Authorization header of its configuration"),
        (status(403, www_authenticate='Bearer error="insufficient_scope"'), r"does not allow this \(HTTP 403"),
    ],
)
async def test_credentials_of_the_configuration_that_are_not_accepted_need_no_login(
    lab: Lab, answer: Answer, said: str
) -> None:
    with serving(answer) as server, pytest.raises(ServerError, match=said) as no:
        await lab.connect(to(server.url, headers={"Authorization": "Bearer planted-secret"}))
    assert not isinstance(no.value, LoginNeeded) and "planted" not in str(no.value)


async def test_a_redirect_elsewhere_is_not_followed(lab: Lab) -> None:
    with (
        serving(status(200)) as elsewhere,
        serving(status(307, location=f"{elsewhere.url}?state=secret")) as server,
        pytest.raises(ServerError, match=r"demo refused: Redirect to http.* not followed") as caught,
    ):
        await lab.connect(to(server.url, headers={"Authorization": "Bearer planted"}))
    assert "secret" not in str(caught.value) and elsewhere.seen == []


async def test_one_failed_request_does_not_end_the_other_calls(lab: Lab) -> None:
    fault = await lab.define("http-legacy")
    client = await lab.connect(fault)
    slow = asyncio.create_task(client.call("slow", {"seconds": 1}))
    with pytest.raises(ServerError, match="Unknown tool: nothing"):
        await client.call("nothing", {})
    assert (await slow).text == "finished" and not client.closed.done()


async def test_a_large_json_answer_is_cut_short(lab: Lab) -> None:
    def flood(handler: Handler, message: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("connection", "close")
        handler.end_headers()
        handler.close_connection = True
        try:
            for _ in range(200):
                handler.wfile.write(b" " * 1_000_000)
        except OSError:
            return
        handler.server.seen.append(("all of it was read", {}))

    said = "demo sent an answer that cannot be used: it is larger than 64 MB"
    with serving(flood) as server, pytest.raises(ServerError, match=said):
        await lab.connect(to(server.url))
    assert ("all of it was read", {}) not in server.seen


def transport_for(url: str, env: dict[str, str]) -> "httpx2.AsyncClient":
    import httpx2

    from agent_cli.mcp.client.http import MessageTransport  # loads the SDK

    return httpx2.AsyncClient(transport=MessageTransport(to(url), env), trust_env=False)


async def test_a_proxy_of_the_environment_is_used_unless_the_host_is_excluded() -> None:
    with serving(status(200, b"{}", content_type="application/json")) as proxy:
        env = {"http_proxy": f"http://127.0.0.1:{proxy.server_port}", "no_proxy": "excluded.invalid"}
        async with transport_for("http://mcp.invalid/mcp", env) as client:
            assert (await client.post("http://mcp.invalid/mcp", json={})).status_code == 200
            failed = (await client.post("http://excluded.invalid/mcp", json={})).json()
    assert proxy.seen[0][0] == "http://mcp.invalid/mcp" and len(proxy.seen) == 1
    assert "cannot be reached" in failed["error"]["message"]


async def test_unusable_proxy_settings_are_named() -> None:
    async with transport_for("http://mcp.invalid/mcp", {"HTTP_PROXY": "ftp://x"}) as client:
        with pytest.raises(ServerError, match="HTTP_PROXY is not an address such as"):
            await client.post("http://mcp.invalid/mcp", json={})


async def test_a_certificate_of_nobody_is_not_trusted() -> None:
    import ssl

    import trustme

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with serving(status(200)) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        url = server.url.replace("http:", "https:")
        async with transport_for(url, {}) as client:
            answer = (await client.post(url, json={})).json()
    assert "has a certificate that is not trusted" in answer["error"]["message"]
