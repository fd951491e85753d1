"""Checkpoints of turns; undo, redo, rewind."""
