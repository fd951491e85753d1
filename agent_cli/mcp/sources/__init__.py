"""Discovery of server definitions in configuration files, and of those that may start."""
