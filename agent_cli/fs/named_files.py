"""The files of a folder that a command line names, with the hashes of their contents: what a user's yes to the
command is bound to."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from .files import read_regular

_MAX_BYTES = 200_000_000
_BETWEEN = re.compile(r"[\s=,;:&|<>()'\"`]+")


def named_files(words: Iterable[str], root: Path, folders: Sequence[Path] = ()) -> dict[str, str]:
    """Return the regular files below `root` that are named among words, relative to it, with their hashes.

    Args:
        words: of a command, or its environment.
        root: the folder that counts.
        folders: what relative names may start from; `root` where there are none.
    """
    found = {path for word in words for folder in folders or (root,) for path in _named(word, folder, root)}
    return {str(path.relative_to(root)): _hash(path) for path in sorted(found)}


def _named(word: str, folder: Path, root: Path) -> Iterator[Path]:
    """Yield the files that a word names, in full or within: `--config=a.json`, `sh -c "node a.js"`."""
    for each in {word, *_BETWEEN.split(word)} - {""}:
        path = Path(os.path.normpath(folder / os.path.expanduser(each)))
        if path.is_relative_to(root) and os.path.isfile(path):
            yield path


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(read_regular(path, _MAX_BYTES, follow=True)).hexdigest()
    except OSError:  # what cannot be read is never what it was
        return os.urandom(16).hex()
