"""`agent mcp`: MCP servers from the shell, and this program as one."""
