"""What MCP servers are and offer, as values, and what a client of one can do."""
