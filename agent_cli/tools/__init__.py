"""What the model can do: one file a tool family, each a declaration and a coroutine."""
