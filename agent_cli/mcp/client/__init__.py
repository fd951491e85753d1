"""The MCP client: the only code that imports the MCP SDK, loaded at the first connection."""
