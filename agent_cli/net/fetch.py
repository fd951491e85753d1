"""Fetch one web document within limits: only from checked addresses, with redirects only within the same host, and
with limits on size and time. Imported on first use."""

import asyncio
import contextlib
import os
import sys
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import msgspec

from .addresses import AddressRefused, Target, reachable, resolve, target_of
from .certificates import tls_context
from .gzip_members import Gunzip
from .proxies import BadProxy, proxy_for

if not TYPE_CHECKING and "httpx" not in sys.modules:
    sys.modules.setdefault("httpx._main", None)  # its CLI would import click, rich and pygments
import httpx

MAX_BYTES = 5_000_000
LIMIT_S = 30.0
_CONNECT_S = 10.0
_MAX_REDIRECTS = 5
_HEADERS = {
    "user-agent": "agent-cli (a developer's assistant; fetches one page at a user's request)",
    "accept": "*/*",
    "accept-encoding": "gzip",
}


class FetchError(Exception):
    """The document could not be fetched; the message says why."""


class Document(msgspec.Struct, frozen=True):
    """Response of a server."""

    url: str
    """The final URL."""
    status: int
    media_type: str
    """In lower case, without parameters; empty if the server does not state it."""
    charset: str
    data: bytes
    cut: bool = False
    """True if there was more than the limit, or its compressed data ended early."""
    elsewhere: str = ""
    """Redirect target that was not followed, as written by the server."""


async def fetch(
    url: str,
    *,
    allowed: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    max_bytes: int = MAX_BYTES,
    limit_s: float = LIMIT_S,
) -> Document:
    """GET a document, or POST `content`. `allowed` are hosts that may be in a private network. Redirects are
    followed only within the same host and port, and only without `headers` and `content`, which must not be sent
    elsewhere.

    Raises:
        AddressRefused: the address must not be fetched from.
        FetchError: the server cannot be reached, or took too long.
    """
    try:
        async with asyncio.timeout(limit_s):
            for _ in range(_MAX_REDIRECTS + 1):
                target = target_of(url)
                found = await _one(target, allowed, headers or {}, content, max_bytes)
                if headers or content is not None or not _leads_on(target, found.elsewhere):
                    return found
                url = found.elsewhere
    except TimeoutError:
        raise FetchError(f"{url} did not answer completely within {limit_s:g} s") from None
    raise FetchError(f"{url} redirects more than {_MAX_REDIRECTS} times")


def _leads_on(target: Target, elsewhere: str) -> bool:
    """Return True if a redirect stays on the same server, including from http to https on default ports."""
    try:
        there = target_of(elsewhere)
    except AddressRefused:
        return False
    way, onward = (target.scheme, target.port), (there.scheme, there.port)
    return there.host == target.host and (onward == way or (way, onward) == (("http", 80), ("https", 443)))


async def _one(
    target: Target, allowed: Sequence[str], headers: Mapping[str, str], content: bytes | None, max_bytes: int
) -> Document:
    """Send one request, without following redirects."""
    try:
        via = proxy_for(target.url, os.environ)
        addresses = await reachable(target, resolve if via is None else _resolved_by_the_proxy, allowed)
    except BadProxy as error:
        raise FetchError(str(error)) from error
    except OSError as error:
        raise FetchError(f"{target.host} cannot be resolved: {error.strerror or error}") from error
    try:
        place = httpx.URL(target.url)
    except httpx.InvalidURL as error:
        raise FetchError(f"{target.url} is not a usable address: {error}") from error
    # A proxy gets exactly the name that was checked: the library interprets some names differently.
    places = [place.copy_with(host=host) for host in (addresses if via is None else (target.host,))]
    async with httpx.AsyncClient(
        verify=tls_context() if target.scheme == "https" else False,
        proxy=via.url if via is not None else None,
        trust_env=False,
        timeout=httpx.Timeout(None, connect=_CONNECT_S),
    ) as client:
        requests = [
            client.build_request(
                "GET" if content is None else "POST",
                place,
                headers={**_HEADERS, **headers, "host": target.authority},
                content=content,
                extensions={"sni_hostname": target.host},
            )
            for place in places
        ]
        try:
            async with contextlib.aclosing(await _first_that_connects(client, requests)) as response:
                return await _document(response, target, max_bytes)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
            raise FetchError(f"{target.url}: {error or type(error).__name__}") from error


async def _first_that_connects(client: httpx.AsyncClient, requests: Sequence[httpx.Request]) -> httpx.Response:
    """Return the response from the first address that accepts a connection: some may be unreachable from here."""
    for request in requests[:-1]:
        with contextlib.suppress(httpx.ConnectError, httpx.ConnectTimeout):
            return await client.send(request, stream=True)
    return await client.send(requests[-1], stream=True)


async def _document(response: httpx.Response, target: Target, max_bytes: int) -> Document:
    location = response.headers.get("location", "")
    if response.is_redirect and location:
        return Document(target.url, response.status_code, "", "", b"", elsewhere=_joined(target.url, location))
    data, is_whole = await _body(response, target, max_bytes)
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return Document(
        target.url,
        response.status_code,
        kind,
        response.charset_encoding or "",
        data[:max_bytes],
        cut=len(data) > max_bytes or not is_whole,
    )


def _joined(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        return location


async def _body(response: httpx.Response, target: Target, max_bytes: int) -> tuple[bytes, bool]:
    """Return the decompressed body, truncated to `max_bytes` + 1 bytes, and False if its compressed data ended
    early.

    Raises:
        FetchError: its compression was not requested, or it is damaged.
    """
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity", "gzip", "x-gzip"):
        raise FetchError(f"{target.url} is encoded as {coding[:40]!r}, which was not asked for")
    unpacker = Gunzip() if "gzip" in coding else None
    data = bytearray()
    async for chunk in response.aiter_raw():
        room = max_bytes + 1 - len(data)
        try:
            # Limited, so that a small compressed chunk cannot become huge.
            data += unpacker.decompress(chunk, room) if unpacker else chunk[:room]
        except zlib.error as error:
            raise FetchError(f"{target.url} is damaged: {error}") from error
        if len(data) > max_bytes:
            break
    return bytes(data), unpacker is None or unpacker.is_complete


async def _resolved_by_the_proxy(host: str, port: int) -> Sequence[str]:
    """Resolve a name for checking only, since the proxy resolves names itself; empty if it cannot be resolved
    here."""
    try:
        return await resolve(host, port)
    except OSError:
        return []
