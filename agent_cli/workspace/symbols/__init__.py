"""Definitions of a source tree, and their ranking."""
