"""The engine: submission loop, dispatch, turns. Knows no front end."""
