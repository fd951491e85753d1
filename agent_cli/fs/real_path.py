"""Find where many paths really lead, at one moment."""

import os
import stat


class RealPaths:
    """Resolves paths as `os.path.realpath` does, and looks at each folder above them once. To be made for one
    moment and thrown away: a link that is put in the place of a folder later is not seen."""

    def __init__(self) -> None:
        self._known = {"/": "/"}

    def __call__(self, path: str) -> str:
        """Return a path without links; what is not there is no link.

        Raises:
            ValueError: there is a NUL in it.
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
