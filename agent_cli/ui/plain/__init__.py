"""The REPL for dumb terminals, pipes and screen readers."""
