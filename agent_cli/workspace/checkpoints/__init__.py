"""Snapshots of a work tree, and restoring from them."""
