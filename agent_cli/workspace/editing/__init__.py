"""Locating passages in a text, and computing the effect of a change."""
