"""HTTP for models: requests over persistent connections.

A `Connection` is for one base URL. h11 speaks HTTP/1.1; this module adds time limits for connecting, for the first
byte and between chunks, which also hold on a half-open connection, and turns every failure into a `ModelError`
that says how far the request got.
"""

import asyncio
import contextlib
import ipaddress
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import h11
import msgspec

from agent_cli.config.schema import Timeouts
from agent_cli.net.certificates import tls_context as tls_context
from agent_cli.protocol.json_text import decode_json

from ..types.base import ModelError
from .bounds import MOST_BYTES, too_long
from .byte_stream import ByteStream
from .connection_errors import broken, proxy_refused, reason, too_slow, usable_proxy
from .hops import MOST_HEADERS, ConnectionSetup, answer_of, basic, proxy_headers, target_of

if TYPE_CHECKING:
    from .content_coding import Decoder

FIRST_BYTE_S = 120.0
FIRST_BYTE_LOCAL_S = 600.0
"""A server on this machine or network may load the model first."""
_KEEP_ALIVE_S = 20.0
_PATH = "/%:@!$&'()*+,;=~-._"
"""Characters not quoted in a path."""


class Response:
    """A response whose status and headers have arrived."""

    def __init__(self, exchange: "_Exchange", answer: h11.Response, first_byte_by: float, idle_s: float) -> None:
        self.status = answer.status_code
        self.headers: Mapping[str, str] = {
            bytes(name).decode("ascii"): bytes(value).decode("latin-1") for name, value in answer.headers
        }
        self._exchange = exchange
        self._first_byte_by = first_byte_by
        self._idle_s = idle_s
        self._end_by = math.inf

    def end_within(self, seconds: float) -> None:
        """Limit the time for the rest of the body. A later call can only shorten it."""
        self._end_by = min(self._end_by, asyncio.get_running_loop().time() + seconds)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives, decompressed.

        Raises:
            ModelError: `stalled` if nothing arrives any more, `connection` if it breaks off.
        """
        clock = asyncio.get_running_loop().time
        decoder = _decoder(self.headers.get("content-encoding", ""))
        with _translated():
            silence_s = max(0.001, self._first_byte_by - clock())
            while True:
                limit_s = min(silence_s, self._end_by - clock())
                if limit_s <= 0:
                    raise ModelError("stalled", "the answer did not end in time")
                try:
                    async with asyncio.timeout(limit_s):
                        chunk = await self._exchange.chunk()
                except TimeoutError:
                    if await self._exchange.has_arrived():
                        continue
                    raise ModelError("stalled", f"nothing arrived for {limit_s:.0f} s") from None
                if data := decoder.decoded(chunk) if decoder is not None else chunk:
                    yield data
                if not chunk:
                    return
                silence_s = self._idle_s

    async def read(self) -> bytes:
        """Return the whole body.

        Raises:
            ModelError: as `chunks`, or `malformed` if it is too long.
        """
        parts: list[bytes] = []
        if await self._collect(parts, MOST_BYTES):
            return b"".join(parts)
        raise too_long()

    async def beginning(self, most: int) -> bytes:
        """Return the body as far as it arrived: at most `most` bytes, or until it broke off or stalled."""
        parts: list[bytes] = []
        with contextlib.suppress(ModelError):
            await self._collect(parts, most)
        return b"".join(parts)[:most]

    async def _collect(self, parts: list[bytes], most: int) -> bool:
        """Read until the end or until more than `most` bytes; return True at the end."""
        size = 0
        async with contextlib.aclosing(self.chunks()) as chunks:
            async for chunk in chunks:
                parts.append(chunk)
                size += len(chunk)
                if size > most:
                    return False
        return True


class Connection:
    """A base URL with headers and time limits; its connections are kept open until `aclose`."""

    def __init__(self, base_url: str, headers: Mapping[str, str], timeouts: Timeouts) -> None:
        """Create a connection.

        Raises:
            ModelError: the address, a header or the proxy settings are unusable.
        """
        self._base_url = base_url.rstrip("/")
        self._timeouts = timeouts
        self._first_byte_s = first_byte_limit_s(base_url, timeouts)
        self._target = target_of(base_url)
        self._via = usable_proxy(base_url)
        ours = {
            "host": self._target.host_header,
            "accept-encoding": "gzip, deflate",
            "content-type": "application/json",
        }
        self._headers = _checked({**ours, **{name.lower(): value for name, value in headers.items()}})
        self._idle: list[tuple[ByteStream, float]] = []
        """Idle connections and when they expire; the most recently used is last."""

    @contextlib.asynccontextmanager
    async def post(
        self, path: str, content: bytes, sent: Callable[[], None] | None = None
    ) -> AsyncIterator[Response]:
        """Send JSON and yield the response; the socket is closed or returned to the pool at the end of the block,
        also if it is left early. `sent` is called when the request has been sent. If a kept connection ends before
        anything is answered, the request is sent once more, over a new one.

        Raises:
            ModelError: `connection`, `timeout`, `stalled`; not retryable if a certificate is not trusted or a
                proxy refuses.
        """
        async with self._sent("POST", path, content, self._first_byte_s, sent) as response:
            yield response

    async def get(self, path: str, limit_s: float) -> tuple[int, bytes]:
        """Return status and body of a GET, or of a redirect its target, within `limit_s` seconds in total.

        Raises:
            ModelError: as `post`.
        """
        try:
            async with asyncio.timeout(limit_s), self._sent("GET", path, b"", limit_s) as response:
                if 300 <= response.status < 400:
                    return response.status, response.headers.get("location", "").encode()
                return response.status, await response.read()
        except TimeoutError:
            raise ModelError("timeout", f"no answer within {limit_s:g} s") from None

    async def aclose(self) -> None:
        """Close all idle connections."""
        while self._idle:
            self._idle.pop()[0].close()

    @contextlib.asynccontextmanager
    async def _sent(
        self,
        method: str,
        path: str,
        content: bytes,
        first_byte_s: float,
        sent: Callable[[], None] | None = None,
    ) -> AsyncIterator[Response]:
        way = ConnectionSetup(self._target, self._via)
        request = self._request(method, path, content, way)
        loop = asyncio.get_running_loop()
        stream: ByteStream | None = None
        is_free = False
        try:
            with _translated(way):
                try:
                    async with asyncio.timeout(self._timeouts.connect_s) as limit:
                        stream = kept = self._unused()
                        while True:
                            stream = stream or await way.open(tls_context)
                            way.hop = "http"
                            first_byte_by = loop.time() + first_byte_s
                            limit.reschedule(first_byte_by)
                            exchange = _Exchange(stream)
                            await exchange.send(request, content)
                            if sent is not None:
                                sent()
                            if stream is not kept or await stream.has_data():
                                break
                            stream.close()  # the server closed it when the request was on its way
                            stream, way.hop = None, "tcp"
                            limit.reschedule(loop.time() + self._timeouts.connect_s)
                        answer = await exchange.answer()
                except TimeoutError:
                    if way.hop != "http":
                        raise too_slow(way.hop, way.target.place, self._timeouts.connect_s, self._via) from None
                    if not await exchange.has_arrived():
                        raise ModelError("stalled", f"no answer within {first_byte_s:g} s") from None
                    first_byte_by = loop.time() + self._timeouts.idle_s
                    answer = await exchange.late_answer(self._timeouts.idle_s)
            if answer.status_code == 407 and self._via is not None:
                words = bytes(answer.reason).decode("ascii", "replace")
                raise proxy_refused(way.target.place, 407, words, self._via)
            yield Response(exchange, answer, first_byte_by, self._timeouts.idle_s)
            is_free = exchange.is_over
        finally:
            if stream is not None and is_free:
                self._idle.append((stream, loop.time() + _KEEP_ALIVE_S))
            elif stream is not None:
                stream.close()

    def _unused(self) -> ByteStream | None:
        """Return an idle connection; close the expired ones."""
        now = asyncio.get_running_loop().time()
        found = None
        while self._idle and found is None:
            stream, until = self._idle.pop()
            if stream.is_quiet and until > now:
                found = stream
            else:
                stream.close()
        return found

    def _request(self, method: str, path: str, content: bytes, way: ConnectionSetup) -> h11.Request:
        target = _path(self._base_url + path)
        headers = list(self._headers)
        if way.target.credentials is not None:
            headers = [each for each in headers if each[0] != "authorization"]
            headers.append(("authorization", basic(*way.target.credentials)))
        if content or method == "POST":
            headers.append(("content-length", str(len(content))))
        if way.is_forwarded and self._via is not None:
            target = f"http://{way.target.host_header}{target}"
            headers += proxy_headers(self._via)
        return h11.Request(method=method, target=target, headers=headers)


class _Exchange:
    """A request and its response on a connection."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEADERS)
        self._broken: OSError | None = None
        """Error while sending the request."""
        self._end: h11.EndOfMessage | h11.RemoteProtocolError | None = None
        """The event that ended the body."""

    @property
    def is_over(self) -> bool:
        """True if both sides are finished and the connection may be reused."""
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def has_arrived(self) -> bool:
        """Return True if data or the end of the connection waits to be read. After a time limit this means that
        the program was stopped, by Ctrl-Z for example, and not that the server was silent."""
        for _ in range(2):  # one pass of the event loop polls the socket, the next delivers
            await asyncio.sleep(0)
        return not self._stream.is_quiet

    async def send(self, request: h11.Request, content: bytes) -> None:
        """Send a request. If the connection breaks, `answer` raises the error, because a response may
        have arrived."""
        data = [self._http.send(request), self._http.send(h11.Data(content)), self._http.send(h11.EndOfMessage())]
        try:
            await self._stream.send(b"".join(each or b"" for each in data))
        except OSError as error:
            self._broken = error

    async def answer(self) -> h11.Response:
        """Return the start of the response.

        Raises:
            h11.RemoteProtocolError: the data is not a response.
            OSError: the connection broke.
        """
        try:
            return await answer_of(self._http, self._stream)
        except (OSError, h11.RemoteProtocolError) as error:
            raise (self._broken or error) from None

    async def late_answer(self, limit_s: float) -> h11.Response:
        """Return the start of a response that arrived while the program was stopped.

        Raises:
            ModelError: `stalled` if the rest of it does not arrive within `limit_s`.
            h11.RemoteProtocolError, OSError: as `answer`.
        """
        try:
            async with asyncio.timeout(limit_s):
                return await self.answer()
        except TimeoutError:
            raise ModelError("stalled", f"nothing arrived for {limit_s:g} s") from None

    async def chunk(self) -> bytes:
        """Return everything received of the body, waiting until there is some; empty at its end.

        Raises:
            h11.RemoteProtocolError, OSError: it broke off.
        """
        parts: list[bytes] = []
        while self._end is None:
            event = self._next_event()
            match event:
                case h11.Data():
                    parts.append(event.data)
                case h11.EndOfMessage() | h11.RemoteProtocolError():
                    self._end = event
                case h11.NEED_DATA if parts:
                    break
                case h11.NEED_DATA:
                    self._http.receive_data(await self._stream.receive())
                case _:
                    self._end = h11.RemoteProtocolError(f"{type(event).__name__} in the middle of an answer")
        if not parts and isinstance(self._end, h11.RemoteProtocolError):
            raise self._end
        return b"".join(parts)

    def _next_event(self) -> object:
        """Return the next event, or the error in its place, so that data received before an error is passed on
        first."""
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            return error


def first_byte_limit_s(base_url: str, timeouts: Timeouts) -> float:
    """Return the time limit for the first byte of a response; an empty URL counts as remote."""
    if timeouts.first_byte_s is not None:
        return timeouts.first_byte_s
    return FIRST_BYTE_LOCAL_S if base_url and is_local_url(base_url) else FIRST_BYTE_S


def is_local_url(url: str) -> bool:
    """Return True if a URL leads to this machine or its private network, judged by its host name alone."""
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local", ".internal", ".lan"))
    return address.is_loopback or address.is_private or address.is_link_local


async def list_models(base_url: str, headers: Mapping[str, str], limit_s: float) -> tuple[str, ...] | None:
    """Return the names in `GET …/models`; None if no such server answers in time."""
    try:
        connection = Connection(base_url, headers, Timeouts(connect_s=limit_s))
    except ModelError:
        return None
    try:
        status, body = await connection.get("/models", limit_s)
        listed = decode_json(body, type=_ModelList) if status == 200 else None
    except (ModelError, msgspec.DecodeError):
        return None
    finally:
        await connection.aclose()
    return None if listed is None else tuple(model.id for model in listed.data)


class _ListedModel(msgspec.Struct, frozen=True):
    id: str


class _ModelList(msgspec.Struct, frozen=True):
    data: tuple[_ListedModel, ...]


def _checked(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return headers that can be sent.

    Raises:
        ModelError: one cannot be sent.
    """
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            kind = "auth" if name.lower() == "authorization" else "bad_request"
            raise ModelError(kind, f"the {name} header holds characters that cannot be sent")  # type: ignore[arg-type]
    if "content-length" in headers:
        raise ModelError("bad_request", "the content-length header depends on the request and cannot be set")
    found = [(name, value.strip()) for name, value in headers.items()]
    try:
        h11.Request(method="GET", target="/", headers=found)
    except h11.LocalProtocolError as error:
        raise ModelError("bad_request", f"the headers cannot be sent: {error}") from error
    return found


def _decoder(encoding: str) -> "Decoder | None":
    if encoding.strip().lower() in ("", "identity"):
        return None
    from .content_coding import Decoder

    return Decoder(encoding)


@contextlib.contextmanager
def _translated(way: ConnectionSetup | None = None) -> Iterator[None]:
    """Convert connection failures to `ModelError`. Without a `way` the response has begun."""
    try:
        yield
    except (h11.RemoteProtocolError, OSError) as error:
        if isinstance(error, TimeoutError) and way is not None:
            raise
        failure = broken(error, way.hop, way.target.host, way.target.place, way.via) if way is not None else None
        if failure is not None:
            raise failure from error
        if isinstance(error, h11.RemoteProtocolError):
            raise ModelError("connection", _closed_early(error)) from error
        raise ModelError("connection", f"the connection broke: {reason(error)}") from error


def _closed_early(error: h11.RemoteProtocolError) -> str:
    words = reason(error)
    if "incomplete" in words:  # h11's wording for a body without its end
        return "the server closed the connection in the middle of the answer"
    if "buffer too long" in words:
        return f"the server sent more than {MOST_HEADERS:,} bytes of headers"
    if words.startswith("illegal"):
        return f"what the server sent is not HTTP ({words})"
    return f"the server closed the connection: {words}"


def _path(url: str) -> str:
    """Return the quoted path and query of a URL."""
    parts = urlsplit(url)
    query = f"?{quote(parts.query, safe=_PATH + '?')}" if parts.query else ""
    return quote(parts.path or "/", safe=_PATH) + query
