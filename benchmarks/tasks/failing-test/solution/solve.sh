#!/bin/sh
cat >textwidth.py <<'END'
"""Widths of texts on a terminal."""

import unicodedata


def _cells(sign):
    if unicodedata.combining(sign):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def width(text):
    """Return how many cells a text takes."""
    return sum(map(_cells, text))


def fit(text, cells):
    """Return the longest beginning of a text that fits into so many cells."""
    for end in range(len(text), -1, -1):
        if width(text[:end]) <= cells:
            return text[:end]
    return ""
END
