"""Files in a folder that a command line names, with hashes of their contents. The user's approval of the command
is bound to them."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from .files import read_regular

_MAX_BYTES = 200_000_000
_MAX_FOLDERS = 16
_BETWEEN = re.compile(r"(?:\$\{?\w+|[\s=,;:&|<>(){}'\"`])+")
"""Separators of names within a word: shell metacharacters, and variables."""
_INTERPRETERS = frozenset("sh bash dash zsh pwsh env python python3 node deno bun ruby perl".split())
_MODULE = re.compile(r"[\w.]+")


def named_files(words: Iterable[str], root: Path, folder: Path | None = None) -> dict[str, str]:
    """Return path relative to `root` → hash, for the regular files below `root` that words name. Words may be
    relative to `root`, to `folder`, or to a folder that they name; they may be command lines and begin with a
    variable."""
    pieces = dict.fromkeys(piece for word in words for piece in _pieces(word))
    if "-m" in pieces:
        pieces |= dict.fromkeys(file for piece in pieces for file in _modules(piece))
    real_root = os.path.realpath(root)
    starts = [str(root), *([str(folder)] if folder else ())]
    named_folders = (path for piece in pieces for path in _places(piece, starts) if os.path.isdir(path))
    below = (path for path in named_folders if _name(path, real_root) not in ("", "."))
    starts = list(dict.fromkeys((*starts, *islice(below, _MAX_FOLDERS))))
    paths = {path for piece in pieces for path in _places(piece, starts) if os.path.isfile(path)}
    found = {name: path for path in paths if (name := _name(path, real_root))}
    return {name: _hash(found[name]) for name in sorted(found)}


def programs_inside(words: Iterable[str], root: Path, search_path: str) -> dict[str, str]:
    """Return path relative to `root` → state, for the programs below `root` that the PATH finds for a command
    line: those that words name, and shells and interpreters, which scripts start."""
    real_root = os.path.realpath(root)
    folders = {each for each in search_path.split(os.pathsep) if _name(os.path.join(root, each or "."), real_root)}
    if not folders:
        return {}
    names = {piece for word in words for piece in _pieces(word) if "/" not in piece} | _INTERPRETERS
    paths = (os.path.join(root, folder, name) for folder in sorted(folders) for name in sorted(names))
    return {os.path.relpath(path, root): _state(path) for path in paths if os.path.lexists(path)}


def _state(path: str) -> str:
    """Return the state of a program and of what it links to, without reading it: an interpreter is large."""
    found = [os.path.realpath(path)]
    for stat in (os.lstat, os.stat):
        try:
            is_ = stat(path)
        except OSError:
            continue
        found += map(str, (is_.st_mode, is_.st_ino, is_.st_size, is_.st_mtime_ns, is_.st_ctime_ns))
    return "\0".join(found)


def _pieces(word: str) -> Iterator[str]:
    """Yield possible names in a word, including the word itself: `--config=a.json`, `sh -c "node a.js"`."""
    yield from (each for each in (word, word.partition("=")[2], *_BETWEEN.split(word)) if each)


def _modules(piece: str) -> Iterator[str]:
    """Yield the files of a Python module."""
    if _MODULE.fullmatch(piece):
        path = piece.replace(".", "/")
        yield from (f"{source}{path}{end}" for source in ("", "src/") for end in (".py", "/__main__.py"))


def _places(piece: str, starts: Iterable[str]) -> Iterator[str]:
    """Yield the paths that a name may refer to; after a variable it may begin with a slash."""
    for start in starts:
        yield os.path.join(start, os.path.expanduser(piece))
        if piece.startswith("/"):
            yield os.path.join(start, piece.lstrip("/"))


def _name(path: str, root: str) -> str:
    """Return a path relative to a root, with links resolved if that leads below it; empty if it is elsewhere."""
    for each in (os.path.realpath(path), os.path.normpath(path)):
        if Path(each).is_relative_to(root):
            return os.path.relpath(each, root)
    return ""


def _hash(path: str) -> str:
    try:
        return hashlib.sha256(read_regular(path, _MAX_BYTES, follow=True)).hexdigest()
    except OSError:  # an unreadable file never equals an earlier version
        return os.urandom(16).hex()
