"""`agent demo`: watch the agent fix a small project from a recording."""
