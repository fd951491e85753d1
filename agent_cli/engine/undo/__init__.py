"""Checkpoints of turns; undo, redo and rewind."""
