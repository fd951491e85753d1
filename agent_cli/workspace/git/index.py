"""Read from git's index which files are tracked, without running git."""

import os
from collections.abc import Iterable
from contextlib import suppress

from agent_cli.fs.files import open_regular
from agent_cli.fs.git_files import index_entries

from .repository import git_folder

_MAX_BYTES = 200_000_000


class TrackedFiles:
    """Tells which paths are tracked. An index is read again only when it has changed."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[tuple[int, int], frozenset[bytes]]] = {}

    def among(self, root: str, paths: Iterable[str]) -> frozenset[str]:
        """Return those of `paths` (absolute) that the repository around `root` tracks."""
        wanted = list(paths)
        try:
            place = git_folder(root) if wanted else None
        except (OSError, ValueError):
            place = None
        if place is None or not place.is_its_own:
            return frozenset()
        tracked = self._tracked(os.path.join(place.own, "index"))
        prefix = place.top.rstrip("/") + "/"
        return frozenset(
            path for path in wanted if path.startswith(prefix) and os.fsencode(path[len(prefix) :]) in tracked
        )

    def _tracked(self, index: str) -> frozenset[bytes]:
        with suppress(OSError, ValueError), os.fdopen(open_regular(index), "rb") as file:
            status = os.fstat(file.fileno())
            stamp = (status.st_mtime_ns, status.st_ino)
            if self._read.get(index, (None,))[0] != stamp:
                self._read[index] = (stamp, frozenset(each.path for each in index_entries(file.read(_MAX_BYTES))))
            return self._read[index][1]
        return frozenset()
