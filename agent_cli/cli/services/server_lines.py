"""The MCP servers of a session as lines for people."""

from agent_cli.mcp.servers import Servers
from agent_cli.ui.services import ServerLine


def server_lines(servers: Servers) -> tuple[ServerLine, ...]:
    """Return one line for each server."""
    return tuple(
        ServerLine(
            name=each.name,
            state=each.state,
            address=each.address,
            source=each.source,
            tools=each.tools,
            tokens=each.tokens,
            error=each.error,
            server=f"{each.server}, protocol {each.protocol}" if each.protocol else "",
            prompts=each.prompts,
            log=each.log,
        )
        for each in servers.status()
    )
