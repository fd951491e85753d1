"""The files of a folder that a command line names, with the hashes of their contents: what a user's yes to the
command is bound to."""

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
"""What ends a name within a word: the shell's own characters, and a variable."""
_MODULE = re.compile(r"[\w.]+")


def named_files(words: Iterable[str], root: Path, folder: Path | None = None) -> dict[str, str]:
    """Return the regular files below `root` that are named among words, relative to it, with their hashes. Words
    may be relative to it, to `folder`, or to a folder that they name; they may be a command line, and begin with
    a variable."""
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


def _pieces(word: str) -> Iterator[str]:
    """Yield what may be a name in a word, which may be one itself: `--config=a.json`, `sh -c "node a.js"`."""
    yield from (each for each in (word, word.partition("=")[2], *_BETWEEN.split(word)) if each)


def _modules(piece: str) -> Iterator[str]:
    """Yield the files of a Python module."""
    if _MODULE.fullmatch(piece):
        path = piece.replace(".", "/")
        yield from (f"{source}{path}{end}" for source in ("", "src/") for end in (".py", "/__main__.py"))


def _places(piece: str, starts: Iterable[str]) -> Iterator[str]:
    """Yield where a name may lead; behind a variable it may begin with a slash."""
    for start in starts:
        yield os.path.join(start, os.path.expanduser(piece))
        if piece.startswith("/"):
            yield os.path.join(start, piece.lstrip("/"))


def _name(path: str, root: str) -> str:
    """Return a path relative to a root, links resolved where that leads below it; empty where it is elsewhere."""
    for each in (os.path.realpath(path), os.path.normpath(path)):
        if Path(each).is_relative_to(root):
            return os.path.relpath(each, root)
    return ""


def _hash(path: str) -> str:
    try:
        return hashlib.sha256(read_regular(path, _MAX_BYTES, follow=True)).hexdigest()
    except OSError:  # what cannot be read is never what it was
        return os.urandom(16).hex()
