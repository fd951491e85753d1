"""The hooks of the user on a session: prompts, the end of turns, the session itself."""
