"""Connect, time out, retry, and explain what went wrong."""
