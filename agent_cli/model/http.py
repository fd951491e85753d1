"""The one place that touches the HTTP library. Imported only when a request is about to be made.

A `Connection` is one base URL with its client, which keeps connections open between calls. It adds what
the library lacks: a limit for the first byte that differs from the one between chunks, both of which hold
on a half-open connection too, and every failure as a `ModelError`.
"""

import asyncio
import contextlib
import functools
import ipaddress
import ssl
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from ..config.schema import Timeouts
from .base import ModelError

if not TYPE_CHECKING and "httpx" not in sys.modules:
    sys.modules.setdefault("httpx._main", None)  # its command line, which would load click, rich and pygments
import httpx

FIRST_BYTE_S = 120.0
FIRST_BYTE_LOCAL_S = 600.0
"""A server on this machine or network may load the model first."""
_KEEP_ALIVE_S = 20.0
_BODY_BYTES = 20_000_000
"""Upper bound for an answer that is read as a whole."""


class Response:
    """An answer of which status and headers have arrived."""

    def __init__(self, response: httpx.Response, first_byte_by: float, idle_s: float) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self._response = response
        self._first_byte_by = first_byte_by
        self._idle_s = idle_s

    def hurry(self, idle_s: float) -> None:
        """From now on wait at most this long for the next chunk."""
        self._idle_s = min(self._idle_s, idle_s)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes, decompressed.

        Raises:
            ModelError: `timeout` when nothing comes any more, `connection` when it breaks off.
        """
        with _translated(str(self._response.url)):
            iterator = self._response.aiter_bytes()
            limit_s = max(0.001, self._first_byte_by - time.monotonic())
            while True:
                try:
                    async with asyncio.timeout(limit_s):
                        chunk = await anext(iterator)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise ModelError("stalled", f"nothing arrived for {limit_s:.0f} s") from None
                yield chunk
                limit_s = self._idle_s

    async def read(self) -> bytes:
        """The whole body.

        Raises:
            ModelError: as `chunks`, or `malformed` when it is absurdly long.
        """
        parts: list[bytes] = []
        size = 0
        async for chunk in self.chunks():
            parts.append(chunk)
            size += len(chunk)
            if size > _BODY_BYTES:
                raise ModelError("malformed", f"the answer is longer than {_BODY_BYTES // 1_000_000} MB")
        return b"".join(parts)


class Connection:
    """A base URL, its headers and its time limits, over one client that is kept until `aclose`."""

    def __init__(self, base_url: str, headers: Mapping[str, str], timeouts: Timeouts) -> None:
        """Raises:
        ModelError: the address or a header is unusable, or the proxy settings are.
        """
        self._base_url = base_url.rstrip("/")
        self._timeouts = timeouts
        host = _host(base_url)
        self._first_byte_s = first_byte_limit_s(base_url, timeouts)
        self._client = _client(base_url, headers, timeouts.connect_s, proxied=not _is_loopback(host))

    @contextlib.asynccontextmanager
    async def post(self, path: str, content: bytes) -> AsyncIterator[Response]:
        """Send JSON; the answer may be read inside the block, and the socket is closed or given back
        at its end, at once when it is left early.

        Raises:
            ModelError: `connection` or `timeout`.
        """
        url = self._base_url + path
        request = self._client.build_request("POST", url, content=content)
        async with self._sent(request, self._first_byte_s) as response:
            yield response

    async def get(self, path: str, limit_s: float) -> tuple[int, bytes]:
        """Status and body of a GET, all within `limit_s` seconds.

        Raises:
            ModelError: `connection` or `timeout`.
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
        first_byte_by = time.monotonic() + first_byte_s
        with _translated(str(request.url)):
            try:
                async with asyncio.timeout(first_byte_s):
                    response = await self._client.send(request, stream=True)
            except TimeoutError:
                raise ModelError("stalled", f"no answer within {first_byte_s:.0f} s") from None
        try:
            yield Response(response, first_byte_by, self._timeouts.idle_s)
        finally:
            await response.aclose()


def first_byte_limit_s(base_url: str, timeouts: Timeouts) -> float:
    """How long to wait for the first byte of an answer; an empty URL is a remote one."""
    if timeouts.first_byte_s is not None:
        return timeouts.first_byte_s
    return FIRST_BYTE_LOCAL_S if base_url and is_local(_host(base_url)) else FIRST_BYTE_S


def is_local(host: str) -> bool:
    """Whether a host is this machine or on its private network, judged by its name alone."""
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


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Certificates of the system, or of SSL_CERT_FILE and SSL_CERT_DIR. Loading them takes 20 ms."""
    return ssl.create_default_context()


def _client(base_url: str, headers: Mapping[str, str], connect_s: float, *, proxied: bool) -> httpx.AsyncClient:
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            kind = "auth" if name.lower() == "authorization" else "bad_request"
            raise ModelError(kind, f"the {name} header holds characters that cannot be sent")  # type: ignore[arg-type]
    try:
        return httpx.AsyncClient(
            headers={"content-type": "application/json", **headers},
            timeout=httpx.Timeout(None, connect=connect_s),
            verify=tls_context() if base_url.startswith("https:") else False,
            limits=httpx.Limits(keepalive_expiry=_KEEP_ALIVE_S),
            trust_env=proxied,
        )
    except (ValueError, ImportError) as error:
        raise ModelError("unsupported", f"the proxy settings cannot be used: {error}") from error


@contextlib.contextmanager
def _translated(url: str) -> Iterator[None]:
    """The library's exceptions as `ModelError`."""
    try:
        yield
    except httpx.ConnectTimeout as error:
        raise ModelError("timeout", f"no connection to {url} in time") from error
    except httpx.ConnectError as error:
        kind, message = _connect_failure(error, url)
        raise ModelError(kind, message) from error  # type: ignore[arg-type]
    except httpx.RemoteProtocolError as error:
        raise ModelError("connection", f"the server closed the connection early ({error})") from error
    except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise ModelError("not_found", f"{url} is no usable address: {error}") from error
    except httpx.DecodingError as error:
        raise ModelError("malformed", f"the answer cannot be decompressed: {error}") from error
    except (httpx.HTTPError, httpx.StreamError, OSError) as error:
        raise ModelError("connection", f"the connection broke: {error or type(error).__name__}") from error


def _connect_failure(error: BaseException, url: str) -> tuple[str, str]:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            hint = "SSL_CERT_FILE can name a file with your own authority"
            return "unsupported", f"the certificate of {url} is not trusted: {cause.verify_message}; {hint}"
        cause = cause.__cause__ or cause.__context__
    return "connection", f"cannot connect to {url}: {error}"


def _host(base_url: str) -> str:
    try:
        return httpx.URL(base_url).host
    except httpx.InvalidURL as error:
        raise ModelError("not_found", f"{base_url} is no usable address: {error}") from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
