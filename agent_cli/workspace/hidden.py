"""Which files of the workspace are closed to commands: found by walking it once, and again only where a folder
has changed since."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

_SKIPPED = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", "target", ".tox", ".mypy_cache"})
"""What is made by tools and far too large to walk before a command."""
MAX_FOLDERS = 20_000


class HiddenFiles:
    """The files and folders below some roots that are closed.

    `is_closed` says so of an absolute path. Links are not followed: what they lead to is judged at its own
    place. A folder's entries are looked at again only when its modification time has changed.
    """

    def __init__(self, roots: Iterable[Path], is_closed: Callable[[str], bool]) -> None:
        self._roots = tuple(str(root) for root in roots)
        self._is_closed = is_closed
        self._seen: dict[str, tuple[int, tuple[str, ...], tuple[str, ...]]] = {}
        """Folder → when it was changed, its folders to walk, its closed entries."""
        self.is_complete = True
        """False when there were more folders than are walked."""

    def paths(self) -> tuple[str, ...]:
        """Everything closed at this moment, sorted."""
        found: list[str] = []
        walked: dict[str, tuple[int, tuple[str, ...], tuple[str, ...]]] = {}
        waiting = list(self._roots)
        while waiting and len(walked) < MAX_FOLDERS:
            folder = waiting.pop()
            try:
                changed_ns = os.stat(folder).st_mtime_ns
            except OSError:
                continue
            known = self._seen.get(folder)
            if known is None or known[0] != changed_ns:
                known = (changed_ns, *self._look(folder))
            walked[folder] = known
            waiting += known[1]
            found += known[2]
        self._seen = walked
        self.is_complete = not waiting
        return tuple(sorted(found))

    def forget(self) -> None:
        """Rules have changed: look at everything again."""
        self._seen.clear()

    def _look(self, folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The folders in a folder that are to be walked, and its entries that are closed."""
        folders, closed = [], []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if not entry.is_symlink() and self._is_closed(entry.path):
                        closed.append(entry.path)
                    elif is_folder and entry.name not in _SKIPPED:
                        folders.append(entry.path)
        except OSError:
            return (), ()  # what we cannot list, a command with our rights cannot list either
        return tuple(folders), tuple(closed)
