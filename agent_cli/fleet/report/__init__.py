"""Summarize the results of a batch, and show them as text, JSON and HTML."""
