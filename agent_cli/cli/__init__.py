"""The entry point: from options to configuration, objects and exit code."""
