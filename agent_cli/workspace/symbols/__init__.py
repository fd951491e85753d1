"""Definitions in a source tree, and their ranking."""
