"""MCP servers: where they are defined, what they offer, and calls of their tools."""
