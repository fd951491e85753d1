"""agent-cli: a terminal coding agent. The version is a literal so that asking for it costs nothing."""

__version__ = "0.1.0"
