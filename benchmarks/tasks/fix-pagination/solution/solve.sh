#!/bin/sh
cat >paging.py <<'END'
"""Split a list into pages."""


def pages(entries, size):
    """Return the entries in lists of `size`; the last one may be shorter."""
    if size < 1:
        raise ValueError("a page has at least one entry")
    return [entries[start : start + size] for start in range(0, len(entries), size)]
END
