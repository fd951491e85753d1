"""The full-screen REPL on prompt-toolkit."""
