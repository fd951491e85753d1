"""Lay out text for a terminal: widths, colours, truncation."""
