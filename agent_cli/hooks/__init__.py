"""Hooks: programs of the user that are run at fixed points of a session to decide or to be notified."""
