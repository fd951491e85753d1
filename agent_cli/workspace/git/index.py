"""Which files git tracks, read off its index without running git (Documentation/gitformat-index.txt)."""

import os
from collections.abc import Iterable
from contextlib import suppress

from agent_cli.fs.files import open_regular

from .paths import git_places

_MAX_BYTES = 200_000_000
_LENGTH = 0xFFF
"""Bits of an entry's flags that hold the length of its path."""


class TrackedFiles:
    """The tracked ones among some paths. An index is read again only when it has changed.

    Versions 2 and 3 are read; of version 4, which compresses paths, nothing counts as tracked.
    """

    def __init__(self) -> None:
        self._read: dict[str, tuple[tuple[int, int], bytes]] = {}

    def among(self, root: str, paths: Iterable[str]) -> frozenset[str]:
        """Return those of `paths`, absolute, that the repository around `root` tracks."""
        wanted = list(paths)
        if not wanted or (found := _index_of(root)) is None:
            return frozenset()
        top, index = found
        data = self._data(index)
        prefix = top.rstrip("/") + "/"
        return frozenset(
            path for path in wanted if path.startswith(prefix) and _has(data, os.fsencode(path[len(prefix) :]))
        )

    def _data(self, index: str) -> bytes:
        with suppress(OSError), os.fdopen(open_regular(index), "rb") as file:
            status = os.fstat(file.fileno())
            stamp = (status.st_mtime_ns, status.st_ino)
            if self._read.get(index, (None,))[0] != stamp:
                self._read[index] = (stamp, file.read(_MAX_BYTES))
            return self._read[index][1]
        return b""


def _index_of(root: str) -> tuple[str, str] | None:
    """Return the top of the work tree around a folder, and its index."""
    folder = root
    while not os.path.lexists(os.path.join(folder, ".git")):
        if (above := os.path.dirname(folder)) == folder:
            return None
        folder = above
    own = next(iter(git_places(root).writable), "")
    return (folder, os.path.join(own, "index")) if own else None


def _has(data: bytes, path: bytes) -> bool:
    """Return whether an index has an entry of this path: the path, ended by a NUL, behind flags with its
    length."""
    if data[:4] != b"DIRC" or data[4:8] not in (b"\0\0\0\2", b"\0\0\0\3"):
        return False
    at = data.find(path + b"\0")
    while at > 0:
        for before in (2, 4):
            flags = int.from_bytes(data[at - before : at - before + 2], "big")
            if flags & _LENGTH == min(len(path), _LENGTH):
                return True
        at = data.find(path + b"\0", at + 1)
    return False
