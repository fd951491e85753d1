"""An MCP server that wants a login, and its authorization server, on one port of the loopback address."""

import asyncio
import json
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.http_server import LoopbackServer

Json = dict[str, Any]


@dataclass
class Knobs:
    """What the servers do, to be changed by a test."""

    methods: tuple[str, ...] = ("S256",)
    issuer: str = ""
    """Named in the metadata; the right one when empty."""
    resource: str = ""
    registers: bool = True
    token_status: int = 200
    token_answer: Json = field(default_factory=dict)
    """What the token endpoint answers besides the token."""
    token_endpoint: str = ""
    rotates: bool = False
    expires_in: int = 3600
    wants_login: bool = True
    redirects_to: str = ""
    scope: str = ""
    """Named with the demand for a login, and granted."""
    call_scope: str = ""
    """What calls need and no token has."""


class Handler(BaseHTTPRequestHandler):
    """Serves `/mcp`, the metadata under `/.well-known` and the endpoints under `/as`."""

    protocol_version = "HTTP/1.1"
    server: "OAuthServer"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _out(self, status: int, body: Any = None, **headers: str) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        base, knobs = self.server.base, self.server.knobs
        if "oauth-protected-resource" in self.path:
            if knobs.redirects_to:
                return self._out(307, location=knobs.redirects_to)
            resource = knobs.resource or f"{base}/mcp"
            return self._out(200, {"resource": resource, "authorization_servers": [f"{base}/as"]})
        if "oauth-authorization-server" in self.path:
            endpoint = knobs.token_endpoint or f"{base}/as/token"
            metadata = {
                "issuer": knobs.issuer or f"{base}/as",
                "authorization_endpoint": f"{base}/as/authorize",
                "token_endpoint": endpoint,
                "registration_endpoint": f"{base}/as/register",
                "response_types_supported": ["code"],
                "authorization_response_iss_parameter_supported": True,
            }
            if knobs.methods:
                metadata["code_challenge_methods_supported"] = list(knobs.methods)
            return self._out(200, metadata)
        return self._out(404, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        if self.path.endswith("/register"):
            self.server.registrations.append(json.loads(body))
            if not self.server.knobs.registers:
                return self._out(400, {"error": "invalid_client_metadata"})
            return self._out(201, {**json.loads(body), "client_id": f"client-{len(self.server.registrations)}"})
        if self.path.endswith("/token"):
            return self._token({name: values[0] for name, values in urllib.parse.parse_qs(body).items()})
        if self.server.knobs.wants_login and self.headers.get("authorization") not in self.server.accepted:
            metadata = f"{self.server.base}/.well-known/oauth-protected-resource/mcp"
            scope = f'scope="{self.server.knobs.scope}", ' if self.server.knobs.scope else ""
            return self._out(401, {}, www_authenticate=f'Bearer {scope}resource_metadata="{metadata}"')
        message = json.loads(body)
        if self.server.knobs.call_scope and message["method"] == "tools/call":
            challenge = f'Bearer error="insufficient_scope", scope="{self.server.knobs.call_scope}"'
            return self._out(403, {}, www_authenticate=challenge)
        return self._mcp(message)

    def do_DELETE(self) -> None:
        self._out(200)

    def _token(self, form: dict[str, str]) -> None:
        server, knobs = self.server, self.server.knobs
        server.forms.append(form)
        if knobs.token_status != 200:
            return self._out(knobs.token_status, knobs.token_answer)
        if form["grant_type"] == "refresh_token" and form["refresh_token"] not in server.refreshable:
            return self._out(400, {"error": "invalid_grant"})
        server.count += 1
        token = f"planted-access-{server.count}"
        server.accepted = {f"Bearer {token}"}
        answer: Json = {"access_token": token, "token_type": "Bearer", "expires_in": knobs.expires_in}
        if knobs.rotates or form["grant_type"] == "authorization_code":
            answer["refresh_token"] = f"planted-refresh-{server.count}"
            server.refreshable = {answer["refresh_token"]}
        return self._out(200, answer | knobs.token_answer)

    def _mcp(self, message: Json) -> None:
        results: dict[str, Json] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "guarded", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "whoami", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "Ada"}]},
        }
        if "id" not in message:
            return self._out(202)
        result = results.get(message["method"])
        answer = (
            {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
        )
        return self._out(200, {"jsonrpc": "2.0", "id": message["id"], **answer})


class OAuthServer(LoopbackServer):
    """What is accepted now, and what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.knobs = Knobs()
        self.accepted: set[str] = set()
        self.refreshable: set[str] = set()
        self.registrations: list[Json] = []
        self.forms: list[dict[str, str]] = []
        self.count = 0

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def oauth_server() -> Iterator[OAuthServer]:
    """Serve until the end of the block."""
    server = OAuthServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Browser:
    """A user who opens the address and agrees."""

    def __init__(self, server: OAuthServer, **changed: str) -> None:
        self.addresses: list[str] = []
        self.answers: list[int] = []
        self._server = server
        self._changed = changed
        self._tasks: list[asyncio.Task[None]] = []

    def show(self, address: str) -> None:
        self.addresses.append(address)
        self._tasks.append(asyncio.create_task(self._open()))

    def just_show(self, address: str) -> None:
        self.addresses.append(address)

    @property
    def query(self) -> dict[str, str]:
        return {
            name: values[0]
            for name, values in urllib.parse.parse_qs(urllib.parse.urlsplit(self.addresses[-1]).query).items()
        }

    def redirect(self, **changed: str) -> str:
        """Return the address that the browser is sent to."""
        good = {"code": "planted-code", "state": self.query["state"], "iss": f"{self._server.base}/as"}
        return f"{self.query['redirect_uri']}?{urllib.parse.urlencode({**good, **self._changed, **changed})}"

    async def _open(self) -> None:
        import httpx2

        async with httpx2.AsyncClient(trust_env=False) as client:
            for forged in ({"state": "forged"}, {}):
                self.answers.append((await client.get(self.redirect(**forged))).status_code)
