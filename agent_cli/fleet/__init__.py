"""Batches: read many tasks, run each attempt in a separate tree, and record the results."""
