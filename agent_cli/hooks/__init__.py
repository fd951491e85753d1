"""Hooks: programs of the user that are asked, or told, at fixed points of a session."""
