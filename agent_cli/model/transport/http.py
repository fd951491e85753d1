"""The one place that touches the HTTP library. Imported only when a request is about to be made.

A `Connection` is one base URL with its client, which keeps connections open between calls. It adds what
the library lacks: a limit for connecting, one for the first byte and one between chunks, all of which hold
on a half-open connection too, and every failure as a `ModelError` that says how far the request got.
"""

import asyncio
import contextlib
import ipaddress
import math
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from agent_cli.config.schema import Timeouts
from agent_cli.net.certificates import tls_context as tls_context
from agent_cli.net.proxies import Proxy

from ..types.base import ModelError
from .bounds import MOST_BYTES, too_long
from .connection_errors import Hop, broken, proxy_broke, proxy_refused, reason, too_slow, usable_proxy

if not TYPE_CHECKING and "httpx" not in sys.modules:
    sys.modules.setdefault("httpx._main", None)  # its command line, which would load click, rich and pygments
import httpx

FIRST_BYTE_S = 120.0
FIRST_BYTE_LOCAL_S = 600.0
"""A server on this machine or network may load the model first."""
_KEEP_ALIVE_S = 20.0


class Response:
    """An answer of which status and headers have arrived."""

    def __init__(self, response: httpx.Response, first_byte_by: float, idle_s: float) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        if place := response.extensions.get("location"):
            self.headers = {**self.headers, "location": place}
        self._response = response
        self._first_byte_by = first_byte_by
        self._idle_s = idle_s
        self._end_by = math.inf

    def end_within(self, seconds: float) -> None:
        """The rest of the body may take this long at the most. A later call can only shorten it."""
        self._end_by = min(self._end_by, asyncio.get_running_loop().time() + seconds)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it comes, decompressed.

        Raises:
            ModelError: `stalled` when nothing comes any more, `connection` when it breaks off.
        """
        clock = asyncio.get_running_loop().time
        with _translated(self._response.url):
            iterator = self._response.aiter_bytes()
            silence_s = max(0.001, self._first_byte_by - clock())
            while True:
                limit_s = min(silence_s, self._end_by - clock())
                if limit_s <= 0:
                    raise ModelError("stalled", "the answer did not end in time")
                try:
                    async with asyncio.timeout(limit_s):
                        chunk = await anext(iterator)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise ModelError("stalled", f"nothing arrived for {limit_s:.0f} s") from None
                yield chunk
                silence_s = self._idle_s

    async def read(self) -> bytes:
        """Return the whole body.

        Raises:
            ModelError: as `chunks`, or `malformed` when it is absurdly long.
        """
        parts: list[bytes] = []
        if await self._collect(parts, MOST_BYTES):
            return b"".join(parts)
        raise too_long()

    async def beginning(self, most: int) -> bytes:
        """Return the body as far as it came: up to so many bytes, or until it broke off or stalled."""
        parts: list[bytes] = []
        with contextlib.suppress(ModelError):
            await self._collect(parts, most)
        return b"".join(parts)[:most]

    async def _collect(self, parts: list[bytes], most: int) -> bool:
        """Read until the end, or until there are more than so many bytes; whether it was the end."""
        size = 0
        async with contextlib.aclosing(self.chunks()) as chunks:
            async for chunk in chunks:
                parts.append(chunk)
                size += len(chunk)
                if size > most:
                    return False
        return True


class Connection:
    """A base URL, its headers and its time limits, over one client that is kept until `aclose`."""

    def __init__(self, base_url: str, headers: Mapping[str, str], timeouts: Timeouts) -> None:
        """Raises:
        ModelError: the address or a header is unusable, or the proxy settings are.
        """
        self._base_url = base_url.rstrip("/")
        self._timeouts = timeouts
        self._first_byte_s = first_byte_limit_s(base_url, timeouts)
        self._via = usable_proxy(base_url)
        self._client = _client(base_url, headers, self._via)

    @contextlib.asynccontextmanager
    async def post(self, path: str, content: bytes) -> AsyncIterator[Response]:
        """Send JSON; the answer may be read inside the block, and the socket is closed or given back
        at its end, at once when it is left early.

        Raises:
            ModelError: `connection`, `timeout`, `stalled`; not to be tried again when a certificate is not
                trusted or a proxy refuses.
        """
        url = self._base_url + path
        request = self._client.build_request("POST", url, content=content)
        async with self._sent(request, self._first_byte_s) as response:
            yield response

    async def get(self, path: str, limit_s: float) -> tuple[int, bytes]:
        """Status and body of a GET, all within `limit_s` seconds.

        Raises:
            ModelError: as `post`.
        """
        request = self._client.build_request("GET", self._base_url + path)
        try:
            async with asyncio.timeout(limit_s), self._sent(request, limit_s) as response:
                return response.status, await response.read()
        except TimeoutError:
            raise ModelError("timeout", f"no answer within {limit_s:g} s") from None

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    @contextlib.asynccontextmanager
    async def _sent(self, request: httpx.Request, first_byte_s: float) -> AsyncIterator[Response]:
        way = _Way(request.url, self._via, first_byte_s)
        request.extensions["trace"] = way.passed
        with _translated(request.url, way):
            try:
                async with asyncio.timeout(self._timeouts.connect_s) as way.limit:
                    response = await self._client.send(request, stream=True)
            except TimeoutError:
                if way.hop != "http":
                    raise too_slow(way.hop, way.place, self._timeouts.connect_s, self._via) from None
                raise ModelError("stalled", f"no answer within {first_byte_s:g} s") from None
            finally:
                await way.leave()
        try:
            if response.status_code == 407 and self._via is not None:
                raise proxy_refused(way.place, 407, response.reason_phrase, self._via)
            yield Response(response, way.first_byte_by, self._timeouts.idle_s)
        finally:
            await response.aclose()


class _Way:
    """How far one request has got. The limit for connecting holds until the server itself is spoken to, then
    the one for its first byte."""

    limit: asyncio.Timeout

    def __init__(self, url: httpx.URL, via: Proxy | None, first_byte_s: float) -> None:
        self.hop: Hop = "tcp"
        self.host = url.host
        self.place = _place(url)
        self.via = via
        self.first_byte_by = 0.0
        self._first_byte_s = first_byte_s
        self._opened: Any = None

    async def passed(self, event: str, info: Mapping[str, Any]) -> None:
        """The library's account of its steps, such as `connection.start_tls.started`."""
        step = event.partition(".")[2]
        if step == "connect_tcp.complete":
            self._opened = info["return_value"]
        to_proxy = step == "send_request_headers.started" and info["request"].method == b"CONNECT"
        if step == "start_tls.started":
            self.hop = "tls"
        elif to_proxy or step == "setup_socks5_connection.started":
            self.hop = "proxy"
        elif step == "send_request_headers.started":
            self.hop = "http"
            self.first_byte_by = asyncio.get_running_loop().time() + self._first_byte_s
            self.limit.reschedule(self.first_byte_by)

    async def leave(self) -> None:
        """Close a connection that never came to the request: the library forgets one whose TLS handshake is
        cancelled, and it would stay open."""
        if self._opened is not None and self.hop != "http":
            with contextlib.suppress(Exception):
                await self._opened.aclose()


def first_byte_limit_s(base_url: str, timeouts: Timeouts) -> float:
    """Return how long to wait for the first byte of an answer; an empty URL is a remote one."""
    if timeouts.first_byte_s is not None:
        return timeouts.first_byte_s
    return FIRST_BYTE_LOCAL_S if base_url and is_local(_host(base_url)) else FIRST_BYTE_S


def is_local(host: str) -> bool:
    """Return whether a host is this machine or on its private network, judged by its name alone."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local", ".internal", ".lan"))
    return address.is_loopback or address.is_private or address.is_link_local


async def list_models(base_url: str, headers: Mapping[str, str], limit_s: float) -> tuple[str, ...] | None:
    """Names from `GET …/models`; None when no such server answers there in time."""
    try:
        connection = Connection(base_url, headers, Timeouts(connect_s=limit_s))
    except ModelError:
        return None
    try:
        status, body = await connection.get("/models", limit_s)
        listed = msgspec.json.decode(body, type=_ModelList) if status == 200 else None
    except (ModelError, msgspec.DecodeError):
        return None
    finally:
        await connection.aclose()
    return None if listed is None else tuple(model.id for model in listed.data)


class _ListedModel(msgspec.Struct, frozen=True):
    id: str


class _ModelList(msgspec.Struct, frozen=True):
    data: tuple[_ListedModel, ...]


def _client(base_url: str, headers: Mapping[str, str], via: Proxy | None) -> httpx.AsyncClient:
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            kind = "auth" if name.lower() == "authorization" else "bad_request"
            raise ModelError(kind, f"the {name} header holds characters that cannot be sent")  # type: ignore[arg-type]
    try:
        return httpx.AsyncClient(
            headers={"content-type": "application/json", **headers},
            timeout=None,  # `_sent` and `Response` hold the limits
            verify=False if base_url.lower().startswith("http:") else tls_context(),  # loading takes 20 ms
            limits=httpx.Limits(keepalive_expiry=_KEEP_ALIVE_S),
            trust_env=False,
            proxy=_proxy(via) if via is not None else None,
            event_hooks={"response": [_keep_location]},
        )
    except (ValueError, ImportError) as error:
        source = f" of {via.source}" if via is not None else ""
        raise ModelError("unsupported", f"the proxy settings{source} cannot be used: {error}") from error


async def _keep_location(response: httpx.Response) -> None:
    """Put a redirect's address aside: the library reads it even when it does not follow, and fails where it is
    no usable one."""
    if "location" in response.headers:
        response.extensions["location"] = response.headers.pop("location")


def _proxy(via: Proxy) -> httpx.Proxy:
    return httpx.Proxy(via.url, ssl_context=tls_context() if via.url.startswith("https:") else None)


@contextlib.contextmanager
def _translated(url: httpx.URL, way: _Way | None = None) -> Iterator[None]:
    """The library's exceptions as `ModelError`. Without a `way` the answer has begun."""
    try:
        yield
    except httpx.ProxyError as error:
        raise _proxy_failure(error, way) from error
    except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise ModelError("not_found", f"{url} is no usable address: {error}") from error
    except httpx.DecodingError as error:
        raise ModelError("malformed", f"the answer cannot be decompressed: {error}") from error
    except (httpx.HTTPError, httpx.StreamError, OSError) as error:
        failure = broken(error, way.hop, way.host, way.place, way.via) if way is not None else None
        if failure is not None:
            raise failure from error
        if isinstance(error, httpx.RemoteProtocolError):
            raise ModelError("connection", _closed_early(error)) from error
        raise ModelError("connection", f"the connection broke: {reason(error)}") from error


def _closed_early(error: httpx.RemoteProtocolError) -> str:
    words = reason(error)
    if "incomplete" in words:  # the library's words for a body that lacks its end
        return "the server closed the connection in the middle of the answer"
    return f"the server closed the connection early ({words})"


def _proxy_failure(error: httpx.ProxyError, way: _Way | None) -> ModelError:
    """Return what a proxy said to CONNECT: the library puts status and reason into the text."""
    status, _, words = str(error).partition(" ")
    if way is None or way.via is None:
        return ModelError("connection", f"the proxy failed: {reason(error)}")
    if not status.isdigit():  # SOCKS has no status that is known here
        return proxy_broke(reason(error), way.via)
    return proxy_refused(way.place, int(status), words, way.via)


def _host(base_url: str) -> str:
    try:
        return httpx.URL(base_url).host
    except httpx.InvalidURL as error:
        raise ModelError("not_found", f"{base_url} is no usable address: {error}") from error


def _place(url: httpx.URL) -> str:
    """HOST:PORT, for people."""
    port = url.port or {"https": 443, "http": 80}.get(url.scheme, 0)
    return f"[{url.host}]:{port}" if ":" in url.host else f"{url.host}:{port}"
