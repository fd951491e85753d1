"""Git worktrees for work separate from the main checkout, merged into it as file changes."""
