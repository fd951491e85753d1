"""The fault server over streamable HTTP at `/mcp`."""

import json
import select
import socket
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fault_wire import META, Channel, Json, Listener, log, write_whole

if TYPE_CHECKING:
    from fault_server import FaultServer


class StreamChannel(Channel):
    """Writes an event a message to an HTTP response, which begins with the first one."""

    def __init__(self, handler: "HttpHandler") -> None:
        super().__init__()
        self._handler = handler
        self.started = False

    def start(self) -> None:
        """Send the head of an event stream, once."""
        if not self.started:
            self.started = True
            self._handler.reply_head(200, {"content-type": "text/event-stream"})

    def write_raw(self, text: str, end: bool = True) -> None:
        with self._lock:
            self.start()
            event = f"event: message\ndata: {text}" + ("\n\n" if end else "")
            self._handler.wfile.write(event.encode())
            self._handler.wfile.flush()

    def closed(self) -> bool:
        connection = self._handler.connection
        readable, _, _ = select.select([connection], [], [], 0)
        return bool(readable) and connection.recv(1, socket.MSG_PEEK) == b""


class HttpHandler(BaseHTTPRequestHandler):
    """Serves `/mcp`: POST in both eras, GET and DELETE in the legacy one."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "HttpServer"

    def log_message(self, format: str, *args: Any) -> None:
        log(format % args)

    def reply_head(self, status: int, headers: dict[str, str]) -> None:
        """Send the head of a response whose end is the end of the connection."""
        self.close_connection = True
        self.send_response(status)
        for name, value in {"connection": "close", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _reply(self, status: int, body: Json | None = None, headers: dict[str, str] | None = None) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.reply_head(
            status, {"content-type": "application/json", "content-length": str(len(content)), **(headers or {})}
        )
        self.wfile.write(content)

    def _refused(self, message: Json) -> bool:
        """Refuse a legacy request without a live session, as the legacy transport wants it."""
        modern = f"{META}protocolVersion" in ((message.get("params") or {}).get("_meta") or {})
        if (
            modern
            or self.server.mcp.options.era == "modern"
            or message.get("method") in ("initialize", "server/discover")
        ):
            return False
        session = self.headers.get("mcp-session-id")
        if session in self.server.sessions:
            return False
        error = {"code": -32600, "message": "Session not found" if session else "Missing session"}
        self._reply(404 if session else 400, {"jsonrpc": "2.0", "id": message.get("id"), "error": error})
        return True

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self._refused(message):
            return
        streamed = message.get("method") in ("tools/call", "subscriptions/listen")
        channel = StreamChannel(self) if streamed else CollectingChannel()
        serve = self.server.mcp.receive(message, channel)
        if serve is None:
            self._reply(202)
            return
        serve()
        if isinstance(channel, CollectingChannel):
            self._reply_json(message, channel.messages[-1])

    def _reply_json(self, message: Json, answer: Json) -> None:
        headers = {}
        if message["method"] == "initialize" and "result" in answer:
            session = uuid.uuid4().hex
            self.server.sessions.add(session)
            headers["mcp-session-id"] = session
        self._reply(400 if "error" in answer else 200, answer, headers)

    def do_GET(self) -> None:
        if self.headers.get("mcp-session-id") not in self.server.sessions:
            self._reply(405, headers={"allow": "POST"})
            return
        channel = StreamChannel(self)
        channel.start()
        listener = Listener(channel)
        self.server.mcp.listeners.append(listener)
        while not channel.closed():
            time.sleep(0.05)
        if listener in self.server.mcp.listeners:
            self.server.mcp.listeners.remove(listener)

    def do_DELETE(self) -> None:
        self.server.sessions.discard(self.headers.get("mcp-session-id", ""))
        self._reply(200)


class CollectingChannel(Channel):
    """Keeps messages for a response that is one JSON document."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Json] = []

    def send(self, message: Json) -> None:
        self.messages.append(message)

    def write_raw(self, text: str, end: bool = True) -> None:
        log(f"noise: {text}")


class HttpServer(ThreadingHTTPServer):
    """The sessions of the legacy era, and the server behind them."""

    daemon_threads = True
    request_queue_size = 128
    """With the library's 5, Linux answers a burst of connections with SYN cookies, and resets some of them."""

    def __init__(self, port: int, mcp: "FaultServer") -> None:
        super().__init__(("127.0.0.1", port), HttpHandler)
        self.mcp = mcp
        self.sessions: set[str] = set()


def serve_http(server: "FaultServer", port: int, port_file: Path | None) -> None:
    """Serve HTTP on loopback until the process is ended."""
    http = HttpServer(port, server)
    log(f"listening on http://127.0.0.1:{http.server_port}/mcp")
    write_whole(port_file, str(http.server_port))
    http.serve_forever()
