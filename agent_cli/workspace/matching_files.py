"""Find the files of a workspace that match a condition, by walking the workspace once, and again only where a
folder or an access list has changed. Answers which files are closed to commands, and which run later."""

import asyncio
import os
import stat
import time
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

import msgspec

from .agentignore import NAME as ACCESS_LIST
from .folder_view import FolderView, Same, current_view, read_once

_SHALLOW = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", "target", ".tox", ".mypy_cache"})
"""Generated folders, far too large to walk before a command: only their direct entries are checked."""
MAX_FOLDERS = 20_000
_SLOW_S = 0.05
"""Seconds of reading that nobody at the keyboard notices."""
_MOST_INSIDE = 1_000
"""Maximum number of files in a closed folder whose hard links are searched for."""


class _Folder(msgspec.Struct, frozen=True):
    """Contents of a folder when it was scanned."""

    times: tuple[int, int]
    """mtime and ctime in nanoseconds; a program can set back the mtime, but not the ctime."""
    lists: int
    """State of the access lists that apply in the folder."""
    own_list: Hashable
    """State of the access list in the folder; None if there is none."""
    folders: tuple[str, ...]
    matching: tuple[str, ...]
    linked: tuple[tuple[str, Same], ...]
    """Files with several hard links."""


_LONGEST_BYTES = 3_800
"""Longest path of a folder that is looked into. Beyond 4095 bytes nothing can be named or mounted by its path, but
a command can get there by changing its directory."""
_DEEPEST = 64
"""Maximum number of levels below a root at which something is closed by itself: each folder above it becomes a
mount too, and hundreds of mounts in each other take longer than a command may take to start."""
_UNREADABLE = _Folder((-1, -1), 0, None, (), (), ())
"""A folder that could not be listed at this moment: it counts as changed the next time."""


class MatchingFiles:
    """The files and folders below some roots that match a condition.

    `matches` decides on an absolute path, by the path and the access lists that apply to it. Symbolic links are
    not followed: their targets are judged at their own paths. Other hard links to a matching file, or to one in
    `elsewhere`, match too. At most `most_folders` are walked.
    """

    def __init__(
        self,
        roots: Iterable[Path],
        matches: Callable[[str], bool],
        most_folders: int = MAX_FOLDERS,
        *,
        links: bool = False,
        unseen: bool = False,
    ) -> None:
        """`links`: also check symbolic links by their own names. `unseen`: a folder whose content cannot be looked
        at, although a command could open it, matches."""
        self._links = links
        self._unseen = unseen
        self._most_folders = most_folders
        self._roots = tuple(str(root) for root in roots)
        self._matches = matches
        self._seen: dict[str, _Folder] = {}
        self._has_linked = False
        """True if the last walk met files with several hard links; what they are linked to may change unseen."""
        self._last: tuple[str, ...] = ()
        self._revision = 0
        """The revision of the workspace that `_last` is of; 0 if unknown."""
        self.is_complete = True
        """False if there were more folders than may be walked."""
        self.access_lists: tuple[str, ...] = ()
        """Paths of the access lists that the last walk met."""

    def paths(self, elsewhere: Iterable[str] = ()) -> tuple[str, ...]:
        """Return everything that currently matches, sorted."""
        if (view := current_view()) is None:
            with read_once() as view:
                return self.walk(view, elsewhere)
        if not view.revision:
            return self.walk(view, elsewhere) if elsewhere else view.answer(self, lambda: self.walk(view, ()))
        if view.revision != self._revision:
            self._last = self.walk(view, elsewhere)
            self._revision = 0 if self._has_linked else view.revision
        return self._last

    def walk(self, view: FolderView, elsewhere: Iterable[str] = ()) -> tuple[str, ...]:
        """Walk the folders as a view shows them; return everything that matches, sorted."""
        found: list[str] = []
        linked: list[tuple[str, Same]] = []
        walked: dict[str, _Folder] = {}
        with_list: list[str] = []
        waiting = [(root, 0) for root in self._roots]
        while waiting and len(walked) < self._most_folders:
            path, lists = waiting.pop()
            if (folder := self._folder(path, lists, view)) is None:
                continue
            walked[path] = folder
            if folder.own_list is not None:
                with_list.append(path)
            if folder.matching or folder.linked:
                found += folder.matching
                linked += folder.linked
            if folder.folders and (path in self._roots or os.path.basename(path) not in _SHALLOW):
                waiting += [(each, folder.lists) for each in folder.folders]
        self._seen = walked
        self.access_lists = tuple(os.path.join(path, ACCESS_LIST) for path in with_list)
        self.is_complete = not waiting
        self._has_linked = bool(linked)
        if linked:
            same = {which for path in (*found, *elsewhere) for which in _files_of(path)}
            found += [path for path, which in linked if which in same]
        return tuple(sorted(set(map(self._in_reach, found) if self._unseen else found)))

    def _in_reach(self, path: str) -> str:
        """Return a path, or the folder around it that is closed in its place."""
        root = next((root for root in self._roots if path.startswith(f"{root}/")), "")
        names = path[len(root) + 1 :].split("/")
        return path if len(names) <= _DEEPEST else "/".join((root, *names[:_DEEPEST]))

    def is_unchanged(self) -> bool:
        """Return True if no folder and no access list has changed since the last walk, which was complete."""
        try:
            for path, known in self._seen.items():
                status = os.stat(path)
                if (status.st_mtime_ns, status.st_ctime_ns) != known.times:
                    return False
                if known.own_list is not None and _list_state(path) != known.own_list:
                    return False
        except OSError:
            return False
        return bool(self._seen) and self.is_complete

    def forget(self) -> None:
        """Scan everything again, after rules have changed."""
        self._seen.clear()
        self._revision = 0
        if (view := current_view()) is not None:
            view.forget(self)

    def _folder(self, path: str, lists: int, view: FolderView) -> _Folder | None:
        """Return the current state of a folder; None if it cannot be looked at. `lists` is the state of the access
        lists above it."""
        try:
            status, known = view.status(path), self._seen.get(path)
        except OSError:
            return None
        if known is not None and known.times == status.times:
            own_list = None if known.own_list is None else _list_state(path)
            if own_list == known.own_list and known.lists == hash((lists, own_list)):
                return known
        if self._unseen and _is_unseen(path, status.owner):
            return _Folder(status.times, hash((lists, None)), None, (), (path,), ())
        try:
            listing = view.listing(path)
        except PermissionError:  # until its status changes
            return _Folder(status.times, hash((lists, None)), None, (), (), ())
        except OSError:
            return _UNREADABLE
        has_list = any(name.lower() == ACCESS_LIST for name in (*listing.others, *listing.links))
        own_list = _list_state(path) if has_list else None
        at = path.rstrip("/")
        names = (*listing.folders, *listing.others, *(listing.links if self._links else ()))
        matching = {name for name in names if self._matches(f"{at}/{name}")}
        return _Folder(
            status.times,
            hash((lists, own_list)),
            own_list,
            tuple(f"{at}/{name}" for name in listing.folders if name not in matching),
            tuple(f"{at}/{name}" for name in names if name in matching),
            tuple((f"{at}/{name}", which) for name, which in listing.linked.items() if name not in matching),
        )


class FolderReader:
    """Reads the folders of a workspace for what is asked around a command."""

    def __init__(self, roots: Iterable[Path]) -> None:
        self._all = MatchingFiles(roots, lambda _: False)
        self._numbers = count(1)
        self._revision = 0
        self._is_slow = True

    @asynccontextmanager
    async def read_once(self, *, ahead: bool = True) -> AsyncGenerator[None]:
        """Read each folder at most once within the block. With `ahead` it is done before and in a thread if it
        takes long, as on a slow disk or the first time."""
        with read_once() as view:
            view.find_revision = partial(self._read, view)
            if ahead and self._is_slow:
                await asyncio.to_thread(lambda: view.revision)
            yield

    def with_access_lists(self) -> tuple[str, ...]:
        """Return the folders that have an access list. Call within `read_once`."""
        if (view := current_view()) is not None:
            _ = view.revision
        return tuple(map(os.path.dirname, self._all.access_lists))

    def _read(self, view: FolderView) -> int:
        began = time.monotonic()
        revision = self._revision
        if not self._all.is_unchanged():
            # Of its own: another command may be read for at the same time, in a thread.
            revision = self._revision = next(self._numbers)
            self._all.walk(view)
        self._is_slow = time.monotonic() - began > _SLOW_S
        return revision if self._all.is_complete else 0


def _list_state(folder: str) -> Hashable:
    """Return the state of the access list in a folder."""
    try:
        status = os.stat(os.path.join(folder, ACCESS_LIST))
    except OSError as error:
        return error.errno
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def _is_unseen(path: str, owner: int) -> bool:
    """Return True if we cannot look into a folder but a command can: names that it knows suffice where folders may
    be searched, and an owner can open the folder again."""
    if len(os.fsencode(path)) > _LONGEST_BYTES:
        return True
    if os.access(path, os.R_OK | os.X_OK):
        return False
    return owner == os.geteuid() or os.access(path, os.X_OK)


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
