"""Run commands, in the foreground and in the background."""
