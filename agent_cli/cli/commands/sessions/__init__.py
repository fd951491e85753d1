"""`agent sessions`: list, search, export, prune and repair saved sessions."""
