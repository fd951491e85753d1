"""Read, write, edit and patch files."""
