"""Spans of a session, out of its events or its file, and where they are written and sent."""
