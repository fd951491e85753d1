"""Permission decisions: `authorize` and its verdict. Pure functions of canonical facts, no I/O."""
