"""Spans and figures from session files."""
