"""Sub-commands."""
