"""Tools that run commands, in the foreground and in the background."""
