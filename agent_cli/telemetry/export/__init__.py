"""Spans written to files and sent to collectors."""
