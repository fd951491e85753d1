"""Count what came of a batch, and show it as text, JSON and HTML."""
