"""Reading the small files that the agent looks at by itself, before anybody was asked: git's HEAD, ignore files,
instructions. They come with the project, so each may be a link to a secret, an endless pipe, or a device."""

import errno
import os
import stat

from .nofollow import DirEntryFd

_LINE_BYTES = 256


def small_bytes(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """Return the first bytes of a regular file. The last name may not be a link; nothing is waited for.

    Raises:
        OSError: it is missing, a link (ELOOP) or no regular file, or cannot be read.
    """
    return _read(
        os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), most_bytes
    )


def regular_bytes(at: DirEntryFd, most_bytes: int, *, from_end: bool = False) -> bytes:
    """Return the same of a file in a folder that is held; with `from_end` its last bytes.

    Raises:
        OSError: as `small_bytes`.
    """
    return _read(at.open(os.O_RDONLY), most_bytes, from_end=from_end)


def first_line(path: str | os.PathLike[str], most_bytes: int = _LINE_BYTES) -> str:
    """Return the first line of a small file, without white space around it; a longer file is cut.

    Raises:
        OSError: as `small_bytes`, or it has a NUL, which is in no name.
    """
    line = small_bytes(path, most_bytes).partition(b"\n")[0]
    if b"\0" in line:
        raise OSError(errno.EINVAL, "not a line of text")
    return os.fsdecode(line.strip())


def _read(fd: int, most_bytes: int, *, from_end: bool = False) -> bytes:
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if from_end:
            file.seek(max(0, status.st_size - most_bytes))
        return file.read(most_bytes)
