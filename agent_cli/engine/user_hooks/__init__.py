"""User hooks on prompts, the end of turns, and the session."""
