"""Prepare, approve, run and record tool calls."""
