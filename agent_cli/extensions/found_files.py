"""List and read extension files, within limits, since projects may contain them too. Outside the user's own
folders no links are allowed: neither the folder, nor anything on the way to it or below it."""

import os
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from agent_cli.fs.files import read_regular

from .places import Place

MOST_FILES = 200
_MOST_ENTRIES = 5_000
"""Maximum number of directory entries examined."""
_DEEPEST = 4
_LARGEST_BYTES = 100_000


class UnusableError(Exception):
    """A file that cannot be used; the text says why."""


def found_files(place: Place, suffix: str) -> Iterator[tuple[tuple[str, ...], Path]]:
    """Yield each file with its names from the top folder down, breadth first; a plug-in may name a single file
    instead of a folder."""
    follows = _follows_links(place)
    if not follows and os.path.realpath(place.folder) != os.fspath(place.folder):
        return
    if place.folder.suffix == suffix and place.folder.is_file():
        yield (place.folder.stem,), place.folder
        return
    waiting: deque[tuple[Path, tuple[str, ...]]] = deque([(place.folder, ())])
    left = _MOST_ENTRIES
    while waiting and left > 0:
        here, names = waiting.popleft()
        for entry in _entries(here, left):
            left -= 1
            if entry.name.startswith("."):
                continue
            if _is_folder(entry, follows):
                if len(names) < _DEEPEST:
                    waiting.append((here / entry.name, (*names, entry.name)))
            elif entry.name.endswith(suffix):
                yield (*names, entry.name.removesuffix(suffix)), here / entry.name


def count_files(place: Place, suffix: str) -> int:
    """Return the number of files, up to `MOST_FILES`, without reading any."""
    return sum(1 for _ in islice(found_files(place, suffix), MOST_FILES))


def read_file(path: Path, place: Place) -> bytes:
    """Return the content of a file.

    Raises:
        UnusableError: it cannot be read, is a forbidden link, or is too large.
    """
    try:
        content = read_regular(os.path.realpath(path) if _follows_links(place) else path, _LARGEST_BYTES + 1)
    except OSError as error:
        is_link = os.path.islink(path)
        why = "it is a link" if is_link else f"it cannot be read: {error.strerror or error}"
        raise UnusableError(why) from error
    if len(content) > _LARGEST_BYTES:
        raise UnusableError(f"it is larger than {_LARGEST_BYTES:,} bytes")
    return content


def read_text(content: bytes) -> str:
    """Return the text of a file with LF line endings.

    Raises:
        UnusableError: it is not UTF-8.
    """
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UnusableError(f"it is not UTF-8 text (byte {error.start})") from error


def _follows_links(place: Place) -> bool:
    return place.origin == "user"


def _entries(folder: Path, most: int) -> list["os.DirEntry[str]"]:
    """Return the sorted entries of a folder; none if it cannot be read."""
    try:
        with os.scandir(folder) as scan:
            return sorted(islice(scan, most), key=lambda entry: entry.name)
    except OSError:
        return []


def _is_folder(entry: "os.DirEntry[str]", follows: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follows)
    except OSError:  # circular links
        return False
