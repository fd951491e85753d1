"""Whose clock stamps the files of a folder."""

import os
import sys
from pathlib import Path

_LOCAL = frozenset(
    ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "tmpfs", "ramfs", "overlay")
)
_ELSEWHERE = ("/Volumes/", "/Network/")
"""Where macOS mounts the disks of others."""


def are_local(folder: str | Path) -> bool:
    """Return True if the clock of this machine stamps the files of a folder, and not that of a server."""
    real = os.path.realpath(folder)
    if sys.platform == "darwin":
        return not real.startswith(_ELSEWHERE)
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            mounts = [line.split() for line in file]
    except OSError:
        return False
    kinds = {words[4]: words[words.index("-", 6) + 1] for words in mounts}  # of several at a place the last counts
    while real not in kinds and real != "/":  # a name with a space is escaped there: then the folder above counts
        real = os.path.dirname(real)
    return kinds.get(real, "") in _LOCAL
