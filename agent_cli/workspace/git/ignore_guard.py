"""Ignore files that hold up whoever reads them: pipes, devices, giants. git and ripgrep open every one they come
by. They are looked for only when a program takes long, since that means to walk what it walks."""

import asyncio
import os
import stat
import time
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

_NAMES = frozenset({".gitignore", ".ignore", ".rgignore"})
_LARGEST_BYTES = 10_000_000
_PATIENCE_S = 2.0
_LONGEST_LOOK_S = 3.0

_Done = TypeVar("_Done")


class BadIgnoreFile(Exception):
    """An ignore file cannot be read to its end; the text says which and why."""


async def unless_held_up(work: Coroutine[Any, Any, _Done], folder: str | os.PathLike[str]) -> _Done:
    """Return what `work`, which walks a folder, gives. It is cancelled when it takes long and an ignore file is
    why.

    Raises:
        BadIgnoreFile: that is so.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=_PATIENCE_S)
        if not task.done() and (why := await asyncio.to_thread(bad_ignore_file, folder)):
            raise BadIgnoreFile(why)
        return await task
    finally:
        if task.cancel():
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # what else it may have to say is of no interest any more


def bad_ignore_file(folder: str | os.PathLike[str]) -> str:
    """Return which ignore file of a folder, of those above it and of those below it cannot be read to its end, and
    why; empty where none is found, or not in time."""
    for path in _ignore_files(os.path.realpath(folder)):
        try:
            status = os.stat(path)
        except OSError:
            continue
        if not stat.S_ISREG(status.st_mode):
            return f"{path} is not a regular file"
        if status.st_size > _LARGEST_BYTES:
            return f"{path} is larger than {_LARGEST_BYTES:,} bytes"
    return ""


def _ignore_files(top: str) -> Iterator[str]:
    """Yield those that may be there: above the folder, in it, and where its walk finds any below it."""
    folder = top
    while folder != (above := os.path.dirname(folder)):
        folder = above
        yield from (os.path.join(folder, name) for name in _NAMES)
        yield os.path.join(folder, ".git", "info", "exclude")
    ends = time.monotonic() + _LONGEST_LOOK_S
    for folder, folders, names in os.walk(top):
        if time.monotonic() > ends:
            return
        yield from (os.path.join(folder, name) for name in _NAMES.intersection(names))
        if ".git" in folders:
            folders.remove(".git")
            yield os.path.join(folder, ".git", "info", "exclude")
