"""An MCP server on the transport of 2024 alone: one GET stream at `/sse`, messages by POST, 405 for a POST at `/sse`.

    python tests/mcp/servers/sse_server.py [--port-file FILE] [--torn]

It speaks the legacy era with the tools of the fault server; `crash` ends the process. With `--torn` its answers to
POST break off.
"""

import argparse
import json
import queue
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from fault_server import FaultServer, parse
from fault_wire import Channel, write_whole


class QueueChannel(Channel):
    """Messages for the stream of one session."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: queue.Queue[str] = queue.Queue()

    def write_raw(self, text: str, end: bool = True) -> None:
        self.waiting.put(text)


class Handler(BaseHTTPRequestHandler):
    """Serves `/sse` and `/messages`."""

    server: "SseServer"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        channel, session = QueueChannel(), uuid.uuid4().hex
        self.server.sessions[session] = channel
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self._event("endpoint", f"/messages?session_id={session}")
        while True:
            self._event("message", channel.waiting.get())

    def _event(self, name: str, data: str) -> None:
        self.wfile.write(f"event: {name}\ndata: {data}\n\n".encode())
        self.wfile.flush()

    def do_POST(self) -> None:
        channel = self.server.sessions.get(self.path.rpartition("session_id=")[2])
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(405 if self.path.startswith("/sse") else 202 if channel else 404)
        if self.server.torn:
            self.send_header("content-length", "8")
        self.end_headers()
        if channel is not None and (serve := self.server.mcp.receive(message, channel)) is not None:
            threading.Thread(target=serve, daemon=True).start()


class SseServer(ThreadingHTTPServer):
    """The sessions, and the server behind them."""

    daemon_threads = True
    request_queue_size = 128
    """With the library's 5, Linux answers a burst of connections with SYN cookies, and resets some of them."""

    def __init__(self, *, torn: bool) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.torn = torn
        self.mcp = FaultServer(parse(["--era", "legacy"]))
        self.sessions: dict[str, QueueChannel] = {}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port-file", type=Path)
    parser.add_argument("--torn", action="store_true")
    options = parser.parse_args()
    server = SseServer(torn=options.torn)
    write_whole(options.port_file, str(server.server_port))
    server.serve_forever()
