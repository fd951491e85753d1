"""Widths of texts on a terminal."""

import unicodedata


def width(text):
    """Return how many cells a text takes."""
    return sum(2 if unicodedata.east_asian_width(sign) == "W" else 1 for sign in text)


def fit(text, cells):
    """Return the longest beginning of a text that fits into so many cells."""
    for end in range(len(text), -1, -1):
        if width(text[:end]) < cells:
            return text[:end]
    return ""
