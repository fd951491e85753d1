"""Render Markdown as it streams in."""
