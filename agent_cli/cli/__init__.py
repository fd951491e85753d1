"""The composition root: options to configuration to objects to exit code."""
