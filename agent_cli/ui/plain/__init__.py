"""The REPL for terminals without a screen, and for screen readers."""
