"""The door to the MCP SDK: connect to a server over any transport, in either era of the protocol.

Importing the SDK takes a second or more, so that nothing else in the program does; here it happens in a thread.
"""

import asyncio
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.profile.confinement import Confinement

from ..types.client import Client, Handlers, ServerError
from ..types.definition import ServerDefinition
from .process import ServerProcess

if TYPE_CHECKING:
    from mcp.client import Transport

_LOADED: list[bool] = []


async def load_sdk() -> None:
    """Import the SDK beside the event loop; the second time it is there."""
    if not _LOADED:
        await asyncio.to_thread(importlib.import_module, "agent_cli.mcp.client.sdk_client")
        _LOADED.append(True)


async def connect(
    definition: ServerDefinition,
    handlers: Handlers,
    processes: ProcessRunner,
    root: Path,
    *,
    spoken: str = "",
    confinement: Confinement | None = None,
) -> Client:
    """Connect to a server, starting it where it is a program.

    Args:
        definition: the server.
        handlers: answer what it asks.
        processes: start programs.
        root: the folder it starts in, unless the definition names one.
        spoken: the revision of the protocol it spoke last; empty when that is not known.
        confinement: what its process may reach; None for everything.

    Raises:
        ServerError: it cannot be reached, does not speak the protocol, or takes longer than it may.
    """
    await load_sdk()
    from .sdk_client import SdkClient, is_legacy

    modes = ["legacy"] if is_legacy(spoken) else ["auto"]
    modes += ["legacy" if modes == ["auto"] else "auto"]
    if definition.transport != "stdio":
        modes = ["auto"] if definition.transport == "http" else ["legacy"]
    for last, mode in zip((*(False,) * (len(modes) - 1), True), modes, strict=True):
        transport, process = await _transport(definition, handlers, processes, root, confinement)
        client = SdkClient(definition, handlers, transport, process)
        try:
            await client.open(mode)
            return client
        except ServerError:
            if last or process is None or not process.has_ended:
                raise  # only one that ended at a message of the other era is started again
    raise AssertionError("unreachable")


async def _transport(
    definition: ServerDefinition,
    handlers: Handlers,
    processes: ProcessRunner,
    root: Path,
    confinement: Confinement | None,
) -> "tuple[Transport, ServerProcess | None]":
    if definition.transport == "stdio":
        from .sdk_client import over_process

        process = ServerProcess(definition.name, handlers)
        await process.start(definition, processes, root, confinement)
        return over_process(process), process
    from .http import over_http

    return over_http(definition), None
