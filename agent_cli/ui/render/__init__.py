"""Render events as lines."""
