"""Process creation and confinement; no other package starts processes."""
