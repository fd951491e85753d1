"""Detect and mask secrets, in whole texts and in streams."""
