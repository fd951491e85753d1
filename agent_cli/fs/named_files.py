"""The files of a folder that a command line names, with the hashes of their contents: what a user's yes to the
command is bound to."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from .files import read_regular

_MAX_BYTES = 200_000_000


def named_files(words: Iterable[str], root: Path) -> dict[str, str]:
    """Return the regular files below `root` that are named among words, relative to it, with their hashes. Words
    may be relative to it, or hold the name behind a `=`."""
    found = {path for word in words for path in _named(word, root)}
    return {str(path.relative_to(root)): _hash(path) for path in sorted(found)}


def _named(word: str, root: Path) -> Iterator[Path]:
    for each in {word, word.partition("=")[2]} - {""}:
        path = Path(os.path.normpath(root / os.path.expanduser(each)))
        if path.is_relative_to(root) and path.is_file():
            yield path


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(read_regular(path, _MAX_BYTES, follow=True)).hexdigest()
    except OSError:  # what cannot be read is never what it was
        return os.urandom(16).hex()
