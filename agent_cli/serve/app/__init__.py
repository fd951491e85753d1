"""The app server: sessions for any program that speaks JSON-RPC, with the agent's own operations and events."""
