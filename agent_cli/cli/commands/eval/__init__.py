"""`agent eval`: measure models and settings on suites of tasks."""
