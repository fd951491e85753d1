"""Spans of a session, built from its events or its file, and their export."""
