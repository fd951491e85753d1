"""Fetching one document of the web within bounds: only from addresses that were judged, a redirect only
within the same host, so much and no more, so long and no longer. Imported when first needed."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import msgspec

from .addresses import Refused, Target, reachable, target_of
from .certificates import tls_context
from .proxies import BadProxy, proxy_for

if not TYPE_CHECKING and "httpx" not in sys.modules:
    sys.modules.setdefault("httpx._main", None)  # its command line, which would load click, rich and pygments
import httpx

MAX_BYTES = 5_000_000
LIMIT_S = 30.0
_CONNECT_S = 10.0
_MAX_REDIRECTS = 5
_AGENT = "agent-cli (a developer's assistant; fetches one page at a user's request)"


class FetchError(Exception):
    """The document could not be had; the text says why."""


class Document(msgspec.Struct, frozen=True):
    """What a server gave."""

    url: str
    """Where it really came from."""
    status: int
    media_type: str
    """Lower case, without parameters; empty when the server does not say."""
    charset: str
    data: bytes
    cut: bool = False
    """There was more than the bound."""
    elsewhere: str = ""
    """The address on another host that it redirects to; nothing was fetched from there."""


async def fetch(
    url: str,
    *,
    allowed: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    max_bytes: int = MAX_BYTES,
    limit_s: float = LIMIT_S,
) -> Document:
    """GET a document, or POST `content`. `allowed` are hosts that may be on a private network.

    Raises:
        Refused: an address that is not to be fetched from.
        FetchError: the server cannot be reached, or took too long.
    """
    try:
        async with asyncio.timeout(limit_s):
            for _ in range(_MAX_REDIRECTS + 1):
                found = await _one(target_of(url), allowed, headers or {}, content, max_bytes)
                if not found.elsewhere:
                    return found
                if _host(found.elsewhere) != _host(url) or content is not None:
                    return found
                url = found.elsewhere
    except TimeoutError:
        raise FetchError(f"{url} gave no whole answer within {limit_s:g} s") from None
    raise FetchError(f"{url} redirects more than {_MAX_REDIRECTS} times")


async def _one(
    target: Target, allowed: Sequence[str], headers: Mapping[str, str], content: bytes | None, max_bytes: int
) -> Document:
    """One request, without following where it leads."""
    try:
        via = proxy_for(target.url, os.environ)
        addresses = await reachable(target, _resolved if via is None else _resolved_by_the_proxy, allowed)
    except BadProxy as error:
        raise FetchError(str(error)) from error
    except OSError as error:
        raise FetchError(f"{target.host} cannot be resolved: {error.strerror or error}") from error
    places = [httpx.URL(target.url)]
    if via is None:
        places = [places[0].copy_with(host=address) for address in addresses]
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
                headers={"user-agent": _AGENT, "accept": "*/*", **headers, "host": target.authority},
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
    """A name may have addresses that cannot be reached from here."""
    for request in requests[:-1]:
        with contextlib.suppress(httpx.ConnectError, httpx.ConnectTimeout):
            return await client.send(request, stream=True)
    return await client.send(requests[-1], stream=True)


async def _document(response: httpx.Response, target: Target, max_bytes: int) -> Document:
    location = response.headers.get("location", "")
    if response.is_redirect and location:
        return Document(target.url, response.status_code, "", "", b"", elsewhere=urljoin(target.url, location))
    data = bytearray()
    async for chunk in response.aiter_bytes():
        data += chunk
        if len(data) > max_bytes:
            break
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return Document(
        target.url,
        response.status_code,
        kind,
        response.charset_encoding or "",
        bytes(data[:max_bytes]),
        cut=len(data) > max_bytes,
    )


async def _resolved(host: str, port: int) -> Sequence[str]:
    """At least one address."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def _resolved_by_the_proxy(host: str, port: int) -> Sequence[str]:
    """A proxy resolves names itself; what can be resolved here as well is judged all the same."""
    try:
        return await _resolved(host, port)
    except OSError:
        return []


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").removeprefix("www.")
    except ValueError as error:
        raise Refused(f"{url} is no usable address") from error
