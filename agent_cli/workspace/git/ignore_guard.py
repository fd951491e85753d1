"""Detect ignore files that block their readers: pipes, devices, huge files, and patterns that git matches in
exponential time. git and ripgrep open every ignore file they find, and git every file of attributes. They are
searched for only if a program takes long, because the search walks the same tree."""

import asyncio
import os
import stat
import time
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from agent_cli.fs.files import read_regular

FOR_RIPGREP = frozenset({".gitignore", ".ignore", ".rgignore"})
FOR_GIT = frozenset({".gitignore", ".gitattributes"})
_LARGEST_BYTES = 10_000_000
_PATIENCE_S = 2.0
_LONGEST_LOOK_S = 3.0
_MOST_CROSSINGS = 4
"""Most `**` in a pattern. git tries every combination of the folders that they may stand for."""

_Done = TypeVar("_Done")


class BadIgnoreFile(Exception):
    """An ignore file cannot be read to its end; the message says which and why."""


async def unless_held_up(
    work: Coroutine[Any, Any, _Done], folder: str | os.PathLike[str], names: frozenset[str] = FOR_GIT
) -> _Done:
    """Return the result of `work`, which walks a folder and reads files with these names. Cancel it if it takes
    long and one of them is the cause.

    Raises:
        BadIgnoreFile: an ignore file is the cause.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=_PATIENCE_S)
        if not task.done() and (why := await asyncio.to_thread(bad_ignore_file, folder, names)):
            raise BadIgnoreFile(why)
        return await task
    finally:
        if task.cancel():
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # mark the exception as retrieved


def bad_ignore_file(folder: str | os.PathLike[str], names: frozenset[str]) -> str:
    """Return which file with one of these names in a folder, above or below it cannot be read to its end, and why;
    empty if none is found in time."""
    for path in _ignore_files(os.path.realpath(folder), names):
        try:
            status = os.stat(path)
        except OSError:
            continue
        if not stat.S_ISREG(status.st_mode):
            return f"{path} is not a regular file"
        if status.st_size > _LARGEST_BYTES:
            return f"{path} is larger than {_LARGEST_BYTES:,} bytes"
        if line := _slow_line(path):
            return f"{path}:{line} has more than {_MOST_CROSSINGS} `**`, which git takes too long to match"
    return ""


def _slow_line(path: str) -> int:
    """Return the number of the first line with too many `**`; 0 if there is none."""
    try:
        lines = read_regular(path, _LARGEST_BYTES).splitlines()
    except OSError:
        return 0
    return next((at for at, line in enumerate(lines, 1) if line.count(b"**") > _MOST_CROSSINGS), 0)


def _ignore_files(top: str, wanted: frozenset[str]) -> Iterator[str]:
    """Yield paths of possible ignore files: above the folder, in it, and existing ones below it."""
    folder = top
    while folder != (above := os.path.dirname(folder)):
        folder = above
        yield from (os.path.join(folder, name) for name in wanted)
        yield os.path.join(folder, ".git", "info", "exclude")
    ends = time.monotonic() + _LONGEST_LOOK_S
    for folder, folders, names in os.walk(top):
        if time.monotonic() > ends:
            return
        yield from (os.path.join(folder, name) for name in wanted.intersection(names))
        if ".git" in folders:
            folders.remove(".git")
            yield os.path.join(folder, ".git", "info", "exclude")
