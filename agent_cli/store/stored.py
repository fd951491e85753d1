"""Session files as the file system tells of them, before any is opened."""

from collections.abc import Callable
from typing import NamedTuple

Progress = Callable[[int, int], None]
"""Told how many sessions of how many have been read."""


class Stored(NamedTuple):
    """One session file as a folder's listing gives it."""

    file: str
    """Relative to the folder of all sessions."""
    size: int
    mtime_ns: int


def seconds(nanoseconds: int) -> float:
    """A file's time as `os.stat` gives it in seconds, to the last bit."""
    return nanoseconds // 10**9 + 1e-9 * (nanoseconds % 10**9)
