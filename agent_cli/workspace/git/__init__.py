"""Reading the user's own repository without running git."""
