"""Split a list into pages."""


def pages(entries, size):
    """Return the entries in lists of `size`; the last one may be shorter."""
    return [entries[start : start + size] for start in range(0, len(entries) - size + 1, size)]
