"""List files and folders of a workspace to offer while a user types a path: those not hidden by ignore files or
access lists. Separate from the search, which starts a program, since this runs on every few keystrokes."""

import os
import time
from collections import deque
from collections.abc import Iterator
from itertools import takewhile
from operator import attrgetter
from pathlib import Path

import msgspec

from agent_cli.fs.files import read_regular

from .agentignore import NAME, AgentIgnore
from .git.gitignore import Pattern, deciding, parse

_IGNORE_FILES = (".gitignore", ".ignore")
_MAX_IGNORE_BYTES = 100_000
_NEVER = frozenset({".git", "__pycache__", "node_modules"})
_MAX_PATHS = 50_000
_LIMIT_S = 2.0
_MAX_IN_FOLDER = 5_000
_FOLDER_LIMIT_S = 0.3


class _List(msgspec.Struct, frozen=True):
    """Patterns from one folder that may apply to paths below."""

    depth: int
    """Number of path components above the folder of the patterns."""
    patterns: tuple[Pattern, ...]


class _Folder(msgspec.Struct, frozen=True):
    """A folder to list."""

    path: str
    """Relative to the root; empty for the root itself."""
    names: tuple[str, ...]
    """Path components from the top of the repository."""
    lists: tuple[_List, ...]
    """Patterns from the ignore files above it."""
    guarded: bool = False
    """True if an access list is in it or above it."""


class _Room:
    """Remaining quota of entries and time."""

    def __init__(self, most: int, limit_s: float) -> None:
        self._left = most
        self._ends = time.monotonic() + limit_s

    @property
    def is_over(self) -> bool:
        """True if the quota is used up."""
        return self._left < 0 or time.monotonic() > self._ends

    def take(self) -> bool:
        """Take one from the quota. Return True if there was room."""
        self._left -= 1
        return not self.is_over


def offered(root: str, limit_s: float = _LIMIT_S) -> Iterator[str]:
    """Yield paths relative to `root`, with a `/` after folders, upper levels first, including hidden ones. Links
    to folders are not entered. At most 50,000 paths, and no more than can be found in `limit_s` seconds."""
    look, room = _Look(root), _Room(_MAX_PATHS, limit_s)
    waiting = deque([look.top])
    while waiting and not room.is_over:
        for path, below in look.entries(waiting.popleft(), room):
            yield path
            if below is not None:
                waiting.append(below)


def offered_in(root: str, folder: str, begun: str = "") -> Iterator[str]:
    """Yield the paths directly in one folder below `root`, which `offered` may have had no room for. `folder` is
    relative; empty for `root` itself. If it has very many entries, yield some, plus those whose names begin with
    `begun`. Yield nothing for a folder that is outside, ignored, closed, or reached through a link."""
    look = _Look(root)
    here = look.top
    names = [name for name in folder.split("/") if name]
    if ".." in names or "." in names or folder.startswith("/"):
        return
    for name in names:
        below = look.below(here, name)
        if below is None:
            return
        here = below
    given: set[str] = set()
    for start in dict.fromkeys(("", begun.lower())):
        for path, _ in look.entries(here, _Room(_MAX_IN_FOLDER, _FOLDER_LIMIT_S), start):
            if path not in given:
                given.add(path)
                yield path


class _Look:
    """Lists folders below a root."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._closed = AgentIgnore([root])
        repository, above = _repository(Path(root))
        names = tuple(Path(root).relative_to(repository).parts)
        self.top = self._entered(_Folder("", names, above))

    def _entered(self, folder: _Folder) -> _Folder:
        """Return the folder with the patterns of its own files added."""
        here = os.path.join(self._root, folder.path)
        lists = (*folder.lists, *_lists(here, len(folder.names)))
        guarded = folder.guarded or os.path.lexists(os.path.join(here, NAME))
        return _Folder(folder.path, folder.names, lists, guarded)

    def entries(self, folder: _Folder, room: _Room, start: str = "") -> Iterator[tuple[str, _Folder | None]]:
        """Yield the paths in a folder whose names begin with `start`, and for a subfolder also its `_Folder`."""
        folder = self._entered(folder) if folder is not self.top else folder
        for entry in _scanned(os.path.join(self._root, folder.path), room, start):
            is_folder = entry.is_dir(follow_symlinks=False)
            if (below := self._kept(folder, entry.name, is_folder)) is not None:
                yield (f"{below.path}/", below) if is_folder else (below.path, None)

    def below(self, folder: _Folder, name: str) -> _Folder | None:
        """Return a subfolder, ready to be listed; None if it is not a folder or is hidden."""
        folder = self._entered(folder) if folder is not self.top else folder
        path = os.path.join(self._root, folder.path, name)
        is_folder = os.path.isdir(path) and not os.path.islink(path)
        return self._kept(folder, name, True) if is_folder else None

    def _kept(self, folder: _Folder, name: str, is_folder: bool) -> _Folder | None:
        """Return an entry of a folder; None if it is hidden."""
        names = (*folder.names, name)
        path = os.path.join(folder.path, name)
        if _is_left_out(names, is_folder, folder.lists):
            return None
        if folder.guarded and self._closed.verdict(os.path.join(self._root, path)):
            return None
        return _Folder(path, names, folder.lists, folder.guarded)


def _scanned(folder: str, room: _Room, start: str) -> list["os.DirEntry[str]"]:
    """Return the entries of a folder sorted by name, up to the quota; none if it cannot be read."""

    def has_room(entry: "os.DirEntry[str]") -> bool:
        return room.take() if entry.name.lower().startswith(start) else not room.is_over

    try:
        with os.scandir(folder) as scan:
            looked_at = takewhile(has_room, scan)
            return sorted(
                (each for each in looked_at if each.name.lower().startswith(start)), key=attrgetter("name")
            )
    except OSError:
        return []


def _repository(root: Path) -> tuple[str, tuple[_List, ...]]:
    """Return the top of the repository, or `root` if there is none, and the patterns of ignore files above
    `root`."""
    top = next((each for each in (root, *root.parents) if (each / ".git").exists()), root)
    lists = [_List(0, _parsed(top / ".git" / "info" / "exclude"))]
    between = root.relative_to(top).parts
    for depth in range(len(between)):
        lists += _lists(str(top.joinpath(*between[:depth])), depth)
    return str(top), tuple(lists)


def _lists(folder: str, depth: int) -> list[_List]:
    found = (_parsed(Path(folder) / name) for name in _IGNORE_FILES)
    return [_List(depth, patterns) for patterns in found if patterns]


def _parsed(path: Path) -> tuple[Pattern, ...]:
    """Return the patterns of a file; none if it is missing or invalid."""
    try:
        return parse(read_regular(path, _MAX_IGNORE_BYTES).decode("utf-8-sig", "replace"))
    except (OSError, ValueError):
        return ()


def _is_left_out(names: tuple[str, ...], is_folder: bool, lists: tuple[_List, ...]) -> bool:
    """Return True if a path is ignored; the nearest file with a matching pattern decides."""
    if names[-1] in _NEVER:
        return True
    for each in reversed(lists):
        if found := deciding(each.patterns, list(names[each.depth :]), is_folder):
            return not found.opens
    return False
