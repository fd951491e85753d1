"""Resolve many paths at one moment."""

import os
import stat


class RealPaths:
    """Resolves paths like `os.path.realpath`, but checks each parent folder only once. Create it for one moment
    and discard it: a folder later replaced by a link is not noticed."""

    def __init__(self) -> None:
        self._known = {"/": "/"}

    def __call__(self, path: str) -> str:
        """Return a path without links; a missing component is not a link.

        Raises:
            ValueError: the path contains a NUL.
        """
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = self._looked_up(path)
        return known

    def _looked_up(self, path: str) -> str:
        folder, slash, name = path.rpartition("/")
        if not slash or name in ("", ".", ".."):
            return os.path.realpath(path)
        above = self(folder or "/")
        place = f"/{name}" if above == "/" else f"{above}/{name}"
        try:
            is_link = stat.S_ISLNK(os.lstat(place).st_mode)
        except OSError:
            return place
        return os.path.realpath(place) if is_link else place
