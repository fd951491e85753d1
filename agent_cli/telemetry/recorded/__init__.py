"""Spans and figures out of session files."""
