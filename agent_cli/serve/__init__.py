"""Front ends for other programs: serve the engine over JSON-RPC, ACP and MCP."""
