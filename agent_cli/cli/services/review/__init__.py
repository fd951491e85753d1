"""Reviews of a change: their sessions, options and output."""
