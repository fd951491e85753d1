"""The user's files: paths, ignore rules, instructions, memory."""
