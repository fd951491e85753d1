"""Tools that read, write, edit and patch files."""
