"""Session files as the file system has them: listed, opened, written whole. Whoever had the folder in hands may
have put a pipe, a device or a link where a file is expected: nothing here waits for one or follows it.
New folders are the user's alone, their parents too.
"""

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_LOCK_TRIES = 20
_LOCK_WAIT_S = 0.005
Progress = Callable[[int, int], None]
"""Told how many sessions of how many have been read."""


class SessionFileStat(NamedTuple):
    """One session file as a folder's listing gives it."""

    file: str
    """Relative to the folder of all sessions."""
    size: int
    mtime_ns: int


class Disk:
    """The operations that bring a session to the disk, one each, so that a test can cut the power between them."""

    def write(self, descriptor: int, data: bytes | memoryview, at: int) -> int:
        """Write some of the data from byte `at` on; returns how much."""
        return os.pwrite(descriptor, data, at)

    def cut(self, descriptor: int, size: int) -> None:
        """Let a file end behind so many bytes."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Wait until the disk has what was written to a file, or the names in a folder."""
        os.fsync(descriptor)


DISK = Disk()


def put(disk: Disk, descriptor: int, data: bytes, at: int) -> None:
    """Write all the data as the end of a file, and wait until the disk has it.

    Raises:
        OSError: it does not fit, or the disk is gone.
    """
    view = memoryview(data)
    written = 0
    while written < len(data):
        written += disk.write(descriptor, view[written:], at + written)
    disk.cut(descriptor, at + len(data))
    disk.sync(descriptor)


def seconds(nanoseconds: int) -> float:
    """Return a file's time as `os.stat` gives it in seconds, to the last bit."""
    return nanoseconds // 10**9 + 1e-9 * (nanoseconds % 10**9)


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Return a descriptor of a regular file that is there. The last name may be a link only with `follow`.

    Raises:
        OSError: it is missing, a link (ELOOP) or no regular file, or may not be opened so.
    """
    link = 0 if follow else os.O_NOFOLLOW
    descriptor = os.open(path, flags | link | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file")


def read_regular(
    path: str | os.PathLike[str], most_bytes: int = -1, *, follow: bool = False, start: int = 0
) -> bytes:
    """Return what a regular file holds from the byte `start` on, at most `most_bytes` of it if that is not
    negative.

    Raises:
        OSError: as `open_regular`, or it cannot be read.
    """
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        file.seek(start)
        return file.read(most_bytes)


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, readable by their owner only. One that is there stays as
    it is.

    Raises:
        OSError: it cannot be made, or is no folder.
    """
    for each in reversed([folder, *folder.parents]):
        if not each.is_dir():
            each.mkdir(mode=0o700, exist_ok=True)


def draft_of(path: Path) -> Path:
    """Return where what is to become `path` is written first."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def write_draft(path: Path, data: bytes, disk: Disk = DISK) -> int:
    """Return a file beside `path` that the disk has whole, to be linked or moved there; open for writing.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    draft = draft_of(path)
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        put(disk, descriptor, data, 0)
    except OSError:
        os.close(descriptor)
        draft.unlink()
        raise
    return descriptor


def content_of(descriptor: int) -> bytes:
    """Return all that the file of a descriptor holds, removed or not.

    Raises:
        OSError: it cannot be read.
    """
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        return file.read()


def sync_folder(folder: Path, disk: Disk = DISK) -> None:
    """Wait until the disk knows the names in a folder.

    Raises:
        OSError: it does not.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        disk.sync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Held while a file is read and replaced.

    Raises:
        OSError: the folder cannot be written, or another program holds the lock too long.
    """
    make_private(path.parent)
    lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for left in reversed(range(_LOCK_TRIES)):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not left:
                    raise
                time.sleep(_LOCK_WAIT_S)
        yield
    finally:
        os.close(lock)


def replace_private(path: Path, data: bytes) -> None:
    """Put a file readable by its owner only in the place of the one there.

    Raises:
        OSError: it cannot be written.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    draft.replace(path)


NAME = re.compile(r"(\d{8}T\d{6}Z)-([0-9a-f]{8})\.json")
"""How a session file is called: when it began, and its id."""


ID = re.compile(r"[0-9a-z]{1,32}")
"""What an id may be in a file with another name: it names folders, so it is never anything else."""
