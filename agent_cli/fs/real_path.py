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
        missing: list[tuple[str, str]] = []
        known = self._known.get(path)
        while known is None:
            folder, slash, name = path.rpartition("/")
            if not slash or name in ("", ".", ".."):
                known = self._known[path] = os.path.realpath(path)
                break
            missing.append((path, name))
            path = folder or "/"
            known = self._known.get(path)
        for below, name in reversed(missing):
            known = self._known[below] = _entry(known, name)
        return known


def _entry(folder: str, name: str) -> str:
    """Return the path without links of an entry of a folder whose path has none."""
    place = f"/{name}" if folder == "/" else f"{folder}/{name}"
    try:
        is_link = stat.S_ISLNK(os.lstat(place).st_mode)
    except OSError:
        return place
    return os.path.realpath(place) if is_link else place
