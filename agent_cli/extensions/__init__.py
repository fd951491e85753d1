"""What the user and the project add in files: found, read, and trusted before it counts."""
