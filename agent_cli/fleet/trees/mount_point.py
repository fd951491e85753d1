"""Watch the folder over which a tree is mounted. If somebody moves or removes it, the mount goes with it: programs
of the attempt would then find the user's own files at its path, and change them."""

import asyncio
import contextlib
import os
import sys

_LOOK_EVERY_S = 0.05


class MountPoint:
    """The folder at the path where the programs of an attempt see their tree."""

    def __init__(self, path: str) -> None:
        """`path` is empty if the tree is not mounted anywhere: then nothing can be lost.

        Raises:
            OSError: there is no such folder.
        """
        self.path = path
        self._folder = -1
        if path and sys.platform == "linux":  # elsewhere, nothing is mounted
            self._folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    @property
    def is_lost(self) -> bool:
        """True if another folder, or none, is at the path now."""
        if self._folder < 0:
            return False
        try:
            return not os.path.samestat(os.fstat(self._folder), os.stat(self.path))
        except OSError:
            return True

    async def lost(self) -> None:
        """Return when it is lost."""
        while not self.is_lost:
            await asyncio.sleep(_LOOK_EVERY_S if self._folder >= 0 else 3600)

    def close(self) -> None:
        """Stop watching; safe to call twice."""
        if self._folder >= 0:
            with contextlib.suppress(OSError):
                os.close(self._folder)
        self._folder = -1
