"""Data types for MCP servers and their offers, and the interface of a client."""
