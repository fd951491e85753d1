"""What a command may reach, as a value."""
