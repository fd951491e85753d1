"""`agent batch`: many tasks in one command."""
