"""The agent's side of a running command."""
