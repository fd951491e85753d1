"""Servers of which it is known what they offer, without any of them running."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_cli.config.schema import McpTools
from agent_cli.mcp.catalog.offer_store import OfferStore
from agent_cli.mcp.servers import Servers
from agent_cli.mcp.types.client import Client, Handlers, ServerError
from agent_cli.mcp.types.definition import ServerDefinition
from agent_cli.mcp.types.offer import Offer, ToolDefinition


def known_servers(
    folder: Path,
    tools: Mapping[str, Sequence[ToolDefinition]],
    *,
    instructions: str = "",
    choice: McpTools | None = None,
) -> Servers:
    """Return the servers of a session that has connected to each of them before."""
    store = OfferStore(folder)
    definitions = [defined(name, choice) for name in tools]
    for definition in definitions:
        store.remember(definition, Offer(tuple(tools[definition.name]), instructions=instructions))
    return Servers(definitions, store, unreachable, ())


def defined(name: str, choice: McpTools | None = None) -> ServerDefinition:
    return ServerDefinition(name=name, transport="stdio", command=("server", name), tools=choice or McpTools())


async def unreachable(definition: ServerDefinition, handlers: Handlers, spoken: str) -> Client:
    raise ServerError(f"{definition.name} is not there")
