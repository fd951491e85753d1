"""The app server: sessions for any program that speaks JSON-RPC, by the agent's own operations and events."""
