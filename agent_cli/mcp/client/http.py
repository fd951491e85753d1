"""Servers that are reached by HTTP: the transport, and what can go wrong in words."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from ..types.definition import ServerDefinition

_CONNECT_S = 10.0
_MAX_EVENT_BYTES = 64_000_000


@asynccontextmanager
async def over_http(definition: ServerDefinition) -> AsyncIterator[Any]:
    """Carry the SDK's messages to a server by HTTP."""
    timeout = httpx2.Timeout(_CONNECT_S, read=definition.timeout_s)
    if definition.transport == "sse":
        async with sse_client(definition.url, headers=dict(definition.headers), timeout=_CONNECT_S) as streams:
            yield streams
        return
    async with (
        httpx2.AsyncClient(headers=dict(definition.headers), timeout=timeout) as client,
        streamable_http_client(definition.url, http_client=client, max_sse_event_size=_MAX_EVENT_BYTES) as streams,
    ):
        yield streams


def in_words(definition: ServerDefinition, error: BaseException) -> str:
    """Return what went wrong on the way to a server; empty for what is no failure of HTTP."""
    where = f"The MCP server {definition.name} ({definition.url})"
    match error:
        case httpx2.HTTPStatusError():
            return f"{where} answered with HTTP {error.response.status_code}."
        case httpx2.TimeoutException():
            return f"{where} did not answer in time."
        case httpx2.TransportError():
            return f"{where} cannot be reached: {error}."
        case _:
            return ""
