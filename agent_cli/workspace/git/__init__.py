"""The user's own repository, read without running git."""
