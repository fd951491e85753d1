"""A collector for tests: takes OTLP over HTTP on loopback, in both encodings, and misbehaves where it is told to."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.http_server import LoopbackServer

PROTOBUF = "application/x-protobuf"
REJECTED = 3


class Taken(NamedTuple):
    """A request as it came."""

    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def is_protobuf(self) -> bool:
        return self.headers["content-type"] == PROTOBUF

    def span_ids(self) -> list[str]:
        """Ids of its spans, as the official types or JSON have them."""
        if self.is_protobuf:
            read = ExportTraceServiceRequest.FromString(self.body)
            return [s.span_id.hex() for r in read.resource_spans for c in r.scope_spans for s in c.spans]
        value: Any = json.loads(self.body)
        return [s["spanId"] for r in value["resourceSpans"] for c in r["scopeSpans"] for s in c["spans"]]


class CollectorServer:
    """Use as a context manager. `answer` gives the status for each request; 0 means that none ever comes."""

    def __init__(
        self, answer: Callable[[int], int] = lambda number: 200, rejects: bool = False, location: str = "",
        most_bytes: int = 1 << 30,
    ) -> None:  # fmt: skip
        self.taken: list[Taken] = []
        """Requests that were answered with 200."""
        self.seen = 0
        self._answer = answer
        self._rejects = rejects
        self._location = location
        self._most_bytes = most_bytes
        self._ended = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                outer._serve(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = LoopbackServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def span_ids(self) -> list[str]:
        """Ids of all spans that were taken."""
        return [each for request in self.taken for each in request.span_ids()]

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = request.rfile.read(int(headers["content-length"]))
        taken = Taken(request.path, headers, body)
        self.seen += 1
        status = self._answer(self.seen) if len(body) <= self._most_bytes else 413
        if not status:
            self._ended.wait(60)
            return
        answer = b"CANARY from the collector"
        if status == 200:
            self.taken.append(taken)
            answer = self._success(taken)
        request.send_response(status)
        request.send_header("content-length", str(len(answer)))
        if self._location:
            request.send_header("location", self._location)
        request.end_headers()
        request.wfile.write(answer)

    def _success(self, taken: Taken) -> bytes:
        if not taken.is_protobuf:
            return json.dumps(
                {"partialSuccess": {"rejectedSpans": str(REJECTED)}} if self._rejects else {}
            ).encode()
        response = ExportTraceServiceResponse()
        if self._rejects:
            response.partial_success.rejected_spans = REJECTED
        return response.SerializeToString()
