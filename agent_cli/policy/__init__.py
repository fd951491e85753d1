"""May this happen? `authorize` and its verdict: pure decisions on canonical facts, no I/O."""
