"""The entry point of the program: command line, ways to run, exit codes."""
