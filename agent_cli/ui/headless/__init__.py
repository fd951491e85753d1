"""`agent run`: one task, its output formats and exit codes."""
