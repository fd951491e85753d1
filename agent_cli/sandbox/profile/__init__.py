"""Data types for what a command may reach."""
