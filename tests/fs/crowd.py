"""Thousands of files at the cost of one: on most disks a new name for a file is made twenty times as fast as a file."""

import os
from collections.abc import Iterable
from pathlib import Path


def crowd(folder: Path, names: Iterable[str]) -> None:
    """Fill a folder with names of one empty file, for tests of names: what writes to one of them writes to all, and
    undo and the rules on secret files look at all names of a file together."""
    first = ""
    for name in names:
        path = os.path.join(folder, name)
        if first:
            os.link(first, path)
        else:
            Path(path).touch()
            first = path
