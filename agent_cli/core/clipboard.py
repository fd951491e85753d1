"""The picture in the clipboard, by whichever program of the desktop can hand it out."""

_LIMIT_S = 2.0
_MAX_BYTES = 50_000_000


class NoPicture(Exception):
    """There is none to be had; the text says why and what to do."""
