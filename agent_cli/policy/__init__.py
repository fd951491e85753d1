"""May this happen? Pure decisions on canonical facts; no I/O."""
