"""The engine: submission loop, turn, tool runner, history. Knows no front end."""
