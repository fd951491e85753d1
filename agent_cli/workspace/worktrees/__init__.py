"""Git worktrees in which work is done apart from the main checkout, and merged into it as changes of files."""
