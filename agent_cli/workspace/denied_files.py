"""Find the workspace files that are closed to commands, by walking the workspace once, and again only where a
folder has changed."""

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

_SHALLOW = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", "target", ".tox", ".mypy_cache"})
"""Generated folders, far too large to walk before a command: only their direct entries are checked."""
MAX_FOLDERS = 20_000
_MOST_INSIDE = 1_000
"""Maximum number of files in a closed folder whose hard links are searched for."""

Same = tuple[int, int]
"""Device and inode number: equal for hard links to one file."""


class _Folder(msgspec.Struct, frozen=True):
    """Contents of a folder when it was scanned."""

    changed: tuple[int, int]
    """mtime and ctime in nanoseconds; a program can set back the mtime, but not the ctime."""
    folders: tuple[str, ...]
    closed: tuple[str, ...]
    linked: tuple[tuple[str, Same], ...]
    """Files with several hard links."""


class HiddenFiles:
    """The closed files and folders below some roots.

    `is_closed` decides on an absolute path. Symbolic links are not followed: their targets are judged at their own
    paths. Other hard links to a closed file, or to one in `elsewhere`, are closed too. At most `most_folders` are
    walked.
    """

    def __init__(
        self,
        roots: Iterable[Path],
        is_closed: Callable[[str], bool],
        most_folders: int = MAX_FOLDERS,
        *,
        links: bool = False,
        unseen: bool = False,
    ) -> None:
        """`links`: also check symbolic links by their own names. `unseen`: a folder whose content cannot be looked
        at, although a command could open it, counts as closed."""
        self._links = links
        self._unseen = unseen
        self._most_folders = most_folders
        self._roots = tuple(str(root) for root in roots)
        self._is_closed = is_closed
        self._seen: dict[str, _Folder] = {}
        self.is_complete = True
        """False if there were more folders than may be walked."""

    def paths(self, elsewhere: Iterable[str] = ()) -> tuple[str, ...]:
        """Return everything currently closed, sorted."""
        closed: list[str] = []
        linked: list[tuple[str, Same]] = []
        walked: dict[str, _Folder] = {}
        waiting = list(self._roots)
        while waiting and len(walked) < self._most_folders:
            path = waiting.pop()
            if (folder := self._folder(path)) is None:
                continue
            walked[path] = folder
            if folder.closed or folder.linked:
                closed += folder.closed
                linked += folder.linked
            if folder.folders and (path in self._roots or os.path.basename(path) not in _SHALLOW):
                waiting += folder.folders
        self._seen = walked
        self.is_complete = not waiting
        if linked:
            same = {which for path in (*closed, *elsewhere) for which in _files_of(path)}
            closed += [path for path, which in linked if which in same]
        return tuple(sorted(set(closed)))

    def forget(self) -> None:
        """Scan everything again, after rules have changed."""
        self._seen.clear()

    def _folder(self, path: str) -> _Folder | None:
        """Return the current state of a folder; None if it cannot be looked at."""
        try:
            status = os.stat(path)
            changed = (status.st_mtime_ns, status.st_ctime_ns)
            known = self._seen.get(path)
            if known is not None and known.changed == changed:
                return known
            if self._unseen and _is_unseen(path, status):
                return _Folder(changed, (), (path,), ())
            return self._look(path, changed)
        except OSError:
            return None

    def _look(self, path: str, changed: tuple[int, int]) -> _Folder:
        folders, closed, linked = [], [], []
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_symlink() and not (self._links and self._is_closed(entry.path)):
                    continue
                if self._is_closed(entry.path):
                    closed.append(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    with suppress(FileNotFoundError):  # a command may delete files meanwhile
                        status = entry.stat(follow_symlinks=False)
                        if status.st_nlink > 1:
                            linked.append((entry.path, (status.st_dev, status.st_ino)))
        return _Folder(changed, tuple(folders), tuple(closed), tuple(linked))


def _is_unseen(path: str, status: os.stat_result) -> bool:
    """Return True if we cannot look into a folder but a command can: names that it knows suffice where folders may
    be searched, and an owner can open the folder again."""
    if os.access(path, os.R_OK | os.X_OK):
        return False
    return status.st_uid == os.geteuid() or os.access(path, os.X_OK)


def _files_of(path: str) -> set[Same]:
    """Return the identity of the file at a path, or of the files below a folder."""
    found: set[Same] = set()
    with suppress(OSError):
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode):
            return {(status.st_dev, status.st_ino)}
        for folder, _, names in os.walk(path):
            for name in names:
                with suppress(OSError):
                    status = os.lstat(os.path.join(folder, name))
                    found.add((status.st_dev, status.st_ino))
            if len(found) > _MOST_INSIDE:
                break
    return found
