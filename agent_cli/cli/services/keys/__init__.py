"""No model can be used: say what to do, and ask for a key."""
