"""Entry point to the MCP SDK: connect to a server over any transport, in either era of the protocol.

Importing the SDK takes a second or more, so nothing else in the program imports it; here it happens in a thread.
"""

import asyncio
import importlib
from functools import partial
from pathlib import Path
from typing import Any

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

    opening = _Opening(definition, handlers, processes, root, confinement, tokens)
    if definition.transport == "stdio":
        return await opening.over_process(legacy=is_legacy(spoken))
    return await opening.over_http(legacy=is_legacy(spoken))


class _Opening(msgspec.Struct, frozen=True):
    """The parameters of a connection to a server."""

    definition: ServerDefinition
    handlers: Handlers
    processes: ProcessRunner
    root: Path
    confinement: Confinement | None
    tokens: TokenStore | None

    async def over_process(self, *, legacy: bool) -> Client:
        """Start the server. If it dies on a message of the other era, start it once more."""
        from .session import over_process

        for is_last, is_legacy in ((False, legacy), (True, not legacy)):
            process = ServerProcess(self.definition.name, self.handlers)
            await process.start(self.definition, self.processes, self.root, self.confinement)
            transport = partial(over_process, process)
            try:
                return await self._opened(self.definition, transport, process, legacy=is_legacy)
            except ServerError:
                if is_last or not process.died:
                    raise
        raise AssertionError("unreachable")

    async def over_http(self, *, legacy: bool) -> Client:
        """Connect by HTTP, falling back to the older transport with two addresses if the server knows only
        that."""
        if self.definition.transport == "sse":
            return await self._over_url(self.definition, legacy=True)
        try:
            return await self._over_url(self.definition, legacy=legacy)
        except ServerError as error:
            if not _may_be_older(error):
                raise
            older = msgspec.structs.replace(self.definition, transport="sse")
            try:
                return await self._over_url(older, legacy=True)
            except ServerError:
                raise error from None

    async def _over_url(self, definition: ServerDefinition, *, legacy: bool) -> Client:
        from .http import has_credentials, over_http
        from .login_auth import LoginAuth

        auth = LoginAuth(definition, self.tokens) if self.tokens and not has_credentials(definition) else None
        return await self._opened(definition, partial(over_http, definition, auth), None, legacy=legacy)

    async def _opened(
        self, definition: ServerDefinition, transport: Any, process: ServerProcess | None, *, legacy: bool
    ) -> Client:
        from .sdk_client import SdkClient

        client = SdkClient(definition, self.handlers, transport, process)
        await client.open(legacy=legacy)
        return client


def _may_be_older(error: ServerError) -> bool:
    """Return True if a server refused the handshake like one that knows only the transport of 2024."""
    from .http_failures import StatusError

    return isinstance(error, StatusError) and error.status in (400, 404, 405)
