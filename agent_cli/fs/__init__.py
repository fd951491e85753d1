"""Open, read, write and lock files safely, and find programs. The one place for each."""
