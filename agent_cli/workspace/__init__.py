"""The user's files: paths, text, checkpoints, instructions."""
