"""Snapshot and restore a work tree."""
