"""The MCP servers of a session: found in configuration files, connected when they are needed."""

import os
from typing import TYPE_CHECKING

from agent_cli.sandbox.process.runner import ProcessRunner

from .setup import Setup

if TYPE_CHECKING:
    from agent_cli.mcp.servers import Servers
    from agent_cli.mcp.types.client import Client, Handlers
    from agent_cli.mcp.types.definition import ServerDefinition


def open_servers(setup: Setup, processes: ProcessRunner) -> "Servers":
    """Return the servers of a session, none of which is started."""
    from agent_cli.mcp.catalog.offer_store import OfferStore
    from agent_cli.mcp.servers import Servers
    from agent_cli.mcp.sources.configured import configured

    definitions = configured(setup.config.mcp_servers, os.environ, setup.workspace.root, "config.yaml")

    async def connected(definition: "ServerDefinition", handlers: "Handlers", spoken: str) -> "Client":
        from agent_cli.mcp.client.connect import connect

        return await connect(definition, handlers, processes, setup.workspace.root, spoken=spoken)

    roots = tuple(str(root) for root in setup.workspace.roots)
    return Servers(definitions, OfferStore(setup.state / "mcp"), connected, roots)
