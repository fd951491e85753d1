"""The files and folders of a workspace that are worth offering to somebody who types a path: what ignore files and
access lists do not hide. Apart from the search, which starts a program, since this answers every few keys."""

import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec

from .agentignore import AgentIgnore
from .gitignore import Pattern, deciding, parse
from .small_files import small_bytes

_IGNORE_FILES = (".gitignore", ".ignore")
_MAX_IGNORE_BYTES = 100_000
_NEVER = frozenset({".git", "__pycache__", "node_modules"})
_MAX_PATHS = 50_000
_LIMIT_S = 2.0


class _List(msgspec.Struct, frozen=True):
    """The patterns of a folder and the files above it that say something about it."""

    depth: int
    """How many names of a path lie above the folder of the patterns."""
    patterns: tuple[Pattern, ...]


def offered(root: str) -> Iterator[str]:
    """Paths relative to `root`, folders with a `/` behind them, the upper ones first, hidden ones included. Links
    to folders are not entered. At most 50,000, and no more than can be found in 2 s."""
    top, above = _repository(Path(root))
    closed = AgentIgnore([root])
    ends = time.monotonic() + _LIMIT_S
    count = 0
    waiting = deque([("", above)])
    while waiting:
        folder, lists = waiting.popleft()
        here = os.path.join(root, folder)
        lists = (*lists, *_lists(here, len(_names(here, top))))
        for entry in _entries(here):
            count += 1
            if count > _MAX_PATHS or time.monotonic() > ends:
                return
            is_folder = entry.is_dir(follow_symlinks=False)
            path = os.path.join(folder, entry.name)
            if _is_left_out(_names(entry.path, top), is_folder, lists) or closed.verdict(entry.path):
                continue
            yield f"{path}/" if is_folder else path
            if is_folder:
                waiting.append((path, lists))


def _repository(root: Path) -> tuple[str, tuple[_List, ...]]:
    """The top of the repository, `root` where there is none, and what ignore files above `root` say."""
    top = next((each for each in (root, *root.parents) if (each / ".git").exists()), root)
    lists = [_List(0, _parsed(top / ".git" / "info" / "exclude"))]
    between = root.relative_to(top).parts
    for depth in range(len(between)):
        lists += _lists(str(top.joinpath(*between[:depth])), depth)
    return str(top), tuple(lists)


def _names(path: str, top: str) -> list[str]:
    return [name for name in path[len(top) :].split(os.sep) if name]


def _lists(folder: str, depth: int) -> list[_List]:
    found = (_parsed(Path(folder) / name) for name in _IGNORE_FILES)
    return [_List(depth, patterns) for patterns in found if patterns]


def _parsed(path: Path) -> tuple[Pattern, ...]:
    """Nothing for a file that is missing or that cannot be understood."""
    try:
        return parse(small_bytes(path, _MAX_IGNORE_BYTES).decode("utf-8-sig", "replace"))
    except (OSError, ValueError):
        return ()


def _entries(folder: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as scan:
            return sorted(scan, key=lambda entry: entry.name)
    except OSError:
        return []


def _is_left_out(names: list[str], is_folder: bool, lists: tuple[_List, ...]) -> bool:
    """Whether a path is ignored; the nearest file that has a word on it decides."""
    if names[-1] in _NEVER:
        return True
    for each in reversed(lists):
        if found := deciding(each.patterns, names[each.depth :], is_folder):
            return not found.opens
    return False
