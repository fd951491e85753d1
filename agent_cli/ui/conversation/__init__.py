"""The conversation between a user and the engine, apart from any screen."""
