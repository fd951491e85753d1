"""The entry point: options to configuration to objects to exit code."""
