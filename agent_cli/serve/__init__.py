"""Offer the engine to other programs: front ends beside the terminal."""
