"""`agent mcp`: manage MCP servers from the shell, and serve this program's tools over MCP."""
