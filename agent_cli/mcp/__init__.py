"""MCP servers: their definitions, what they offer, and calls of their tools."""
