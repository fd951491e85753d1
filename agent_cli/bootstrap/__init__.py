"""The composition root: options, configuration and environment become an open session."""
