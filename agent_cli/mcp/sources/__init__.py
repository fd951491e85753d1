"""Find the definitions of servers in configuration files, and which of them may start."""
