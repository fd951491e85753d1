"""A web server on loopback that answers as it is told."""

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar

from tests.http_server import LoopbackServer

Answer = tuple[int, dict[str, str], bytes]


class Site:
    """Where the server is, and what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []


@contextmanager
def site(pages: dict[str, Answer]) -> Iterator[Site]:
    """Serve `pages` by path; any other is a 404. A body of b"HANG" never comes."""
    stopped = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        here: ClassVar[Site]

        def do_GET(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.here.asked.append((self.command, self.path, headers, self.rfile.read(length)))
            status, answer, body = pages.get(self.path.partition("?")[0], (404, {}, b"not here"))
            self.send_response(status)
            for name, value in answer.items():
                self.send_header(name, value)
            self.end_headers()
            if body == b"HANG":
                stopped.wait(20)
                return
            with contextlib.suppress(OSError):  # the client has had enough
                self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = LoopbackServer(("127.0.0.1", 0), Handler)
    Handler.here = Site(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield Handler.here
    finally:
        stopped.set()
        server.shutdown()
        thread.join(5)
        server.server_close()
