"""Entry point to the MCP SDK: connect to a server over any transport, in either era of the protocol.

Importing the SDK takes a second or more, so nothing else in the program imports it; here it happens in a thread.
"""

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec

from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.profile.confinement import Confinement

from ..types.client import Client, Handlers, ServerError
from ..types.definition import ServerDefinition
from .process import ServerProcess
from .tokens import TokenStore


async def connect(
    definition: ServerDefinition,
    handlers: Handlers,
    processes: ProcessRunner,
    root: Path,
    *,
    spoken: str = "",
    confinement: Confinement | None = None,
    tokens: TokenStore | None = None,
) -> Client:
    """Connect to a server, starting it if it is a program.

    Args:
        definition: the server.
        handlers: answer its requests.
        processes: start programs.
        root: the folder it starts in, unless the definition names one.
        spoken: the protocol revision it spoke last; empty if unknown.
        confinement: limits the access of its process; None for full access.
        tokens: the logins; None for none.

    Raises:
        LoginNeeded: it requires a login first.
        ServerError: it cannot be reached, does not speak the protocol, or exceeds its time limit.
    """
    await asyncio.to_thread(importlib.import_module, "agent_cli.mcp.client.sdk_client")
    from .sdk_client import is_legacy

    if definition.transport != "stdio":
        return await _over_http(definition, handlers, tokens, legacy=is_legacy(spoken))

    async def started() -> ServerProcess:
        process = ServerProcess(definition.name, handlers)
        await process.start(definition, processes, root, confinement)
        return process

    return await _over_process(definition, handlers, started, legacy=is_legacy(spoken))


async def _over_process(
    definition: ServerDefinition,
    handlers: Handlers,
    started: Callable[[], Awaitable[ServerProcess]],
    *,
    legacy: bool,
) -> Client:
    """Start the server. If it dies on a message of the other era, start it once more."""
    from .sdk_client import SdkClient
    from .session import over_channel

    for is_last, is_legacy in ((False, legacy), (True, not legacy)):
        process = await started()
        client = SdkClient(definition, handlers, partial(over_channel, process), process)
        try:
            await client.open(legacy=is_legacy)
            return client
        except ServerError:
            if is_last or not process.died:
                raise
    raise AssertionError("unreachable")


async def _over_http(
    definition: ServerDefinition, handlers: Handlers, tokens: TokenStore | None, *, legacy: bool
) -> Client:
    """Connect by HTTP, falling back to the older transport with two addresses if the server knows only that."""
    from .http import has_credentials, over_http
    from .login_auth import LoginAuth
    from .sdk_client import SdkClient
    from .sse import over_sse

    async def opened(definition: ServerDefinition, *, legacy: bool) -> Client:
        auth = LoginAuth(definition, tokens) if tokens and not has_credentials(definition) else None
        carry = (
            partial(over_sse, definition, auth, handlers.log)
            if definition.transport == "sse"
            else partial(over_http, definition, auth)
        )
        client = SdkClient(definition, handlers, carry, None)
        await client.open(legacy=legacy)
        return client

    if definition.transport == "sse":
        return await opened(definition, legacy=True)
    try:
        return await opened(definition, legacy=legacy)
    except ServerError as error:
        if not _may_be_older(error):
            raise
        try:
            return await opened(msgspec.structs.replace(definition, transport="sse"), legacy=True)
        except ServerError:
            raise error from None


def _may_be_older(error: ServerError) -> bool:
    """Return True if a server refused the handshake like one that knows only the transport of 2024."""
    from .http_failures import StatusError

    return isinstance(error, StatusError) and error.status in (400, 404, 405)
