"""Parsing, unwrapping and classification of shell command lines."""
