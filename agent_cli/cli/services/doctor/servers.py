"""Check of the MCP servers for `agent doctor`: connect to every server that may start, all at the same time."""

import asyncio

from agent_cli.bootstrap.compose import servers_alone
from agent_cli.bootstrap.mcp_servers import found_servers
from agent_cli.bootstrap.setup import Setup
from agent_cli.mcp.connection import Connection
from agent_cli.mcp.types.client import LoginNeeded, ServerError
from agent_cli.protocol.sanitize import visible
from agent_cli.sandbox.process.runner import ProcessRunner

from .endpoint import Finding

_LIMIT_S = 10.0


async def server_findings(setup: Setup) -> list[Finding]:
    """Return a finding for each server, including those that are not started."""
    found = found_servers(setup)
    inert = [
        Finding("note", _title(each.definition.name), f"not trusted, so not started ({each.definition.source})",
                f"`agent mcp trust {each.definition.name}` shows it and asks.")
        for each in found.inert
    ]  # fmt: skip
    notes = [Finding("note", "MCP servers", note) for note in found.notes]
    processes = ProcessRunner()
    servers = await servers_alone(setup, processes)
    if servers is None:
        return []
    try:
        tried = await asyncio.gather(*map(_tried, servers.connections.values()))
    finally:
        await servers.aclose()
        await processes.aclose()
    return [*tried, *inert, *notes]


async def _tried(connection: Connection) -> Finding:
    definition = connection.definition
    name = _title(definition.name)
    again = f"`agent mcp test {definition.name}` shows more."
    if definition.problem:
        return Finding("note", name, definition.problem, f"Correct it in {definition.source}.")
    if not definition.enabled:
        return Finding("ok", name, f"disabled ({definition.source})")
    try:
        async with asyncio.timeout(_LIMIT_S):
            client = await connection.ready()
    except TimeoutError:
        return Finding("note", name, f"not ready within {_LIMIT_S:g} s; a session waits longer", again)
    except LoginNeeded:
        return Finding("note", name, "it wants a login", f"`agent mcp login {definition.name}` logs in.")
    except ServerError as error:
        return Finding("note", name, str(error), again)
    offer = client.offer
    said = visible(offer.server) or "connected"
    return Finding("ok", name, f"{said}, protocol {visible(offer.protocol)}, {len(offer.tools)} tools")


def _title(name: str) -> str:
    return f"MCP server {name}"
