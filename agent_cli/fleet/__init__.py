"""Many tasks at once: read them, run each attempt in a tree of its own, and record what came of it."""
