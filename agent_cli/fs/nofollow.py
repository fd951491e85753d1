"""Access files by their real paths without following links: from the root down, each folder is opened relative to
the descriptor of its parent. If a folder or file is replaced by a link in the meantime, the call fails instead of
being redirected."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

import msgspec

from .files import SAFE_OPEN_FLAGS, read_regular

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SEARCHED = _FOLDER | getattr(os, "O_PATH", getattr(os, "O_SEARCH", os.O_RDONLY))
"""Folders on the path may be searchable but not listable."""
_SURELY_SHORT = 1000


class DirEntryFd(msgspec.Struct, frozen=True):
    """A name in an open folder. No operation follows a link of that name."""

    folder: int
    """Descriptor for operations relative to the folder; the folder may not be listable."""
    name: str

    def read(self, most_bytes: int, *, from_end: bool = False) -> bytes:
        """Return the first bytes of a regular file; with `from_end`, its last bytes.

        Raises:
            OSError: as in `read_regular`.
        """
        return read_regular(self.name, most_bytes, from_end=from_end, dir_fd=self.folder)

    def status(self) -> os.stat_result:
        """Return the status of the entry, without following a link.

        Raises:
            OSError: it does not exist or cannot be accessed.
        """
        return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)

    def open(self, flags: int, mode: int = 0o666) -> int:
        """Return a descriptor, to be closed by the caller. Does not block on a pipe or device.

        Raises:
            OSError: it cannot be opened, or is a link.
        """
        return os.open(self.name, flags | os.O_NOFOLLOW | SAFE_OPEN_FLAGS, mode, dir_fd=self.folder)

    def unlink(self) -> None:
        """Delete the file or link.

        Raises:
            OSError: it does not exist, or deletion is not permitted.
        """
        os.unlink(self.name, dir_fd=self.folder)


@contextlib.contextmanager
def dir_entry(real: str, made: list[str] | None = None, *, within: int | None = None) -> Iterator[DirEntryFd]:
    """Hold open the folder in which a file is or will be. With `made`, create missing folders on the path and
    append their paths to it, outermost first, even if a later one fails. With `within`, `real` is relative to that
    folder.

    Raises:
        OSError: a folder is missing, is not a folder, or is a link (ELOOP).
    """
    folder, name = os.path.split(real)
    fd = _descended(folder, _SEARCHED, made, within)
    try:
        yield DirEntryFd(fd, name or ".")
    finally:
        os.close(fd)


@contextlib.contextmanager
def open_folder(real: str) -> Iterator[int]:
    """Hold a folder open for `os.scandir`.

    Raises:
        OSError: it is missing, is not a folder, is a link (ELOOP), or may not be listed.
    """
    fd = _descended(real, os.O_RDONLY | _FOLDER, None)
    try:
        yield fd
    finally:
        os.close(fd)


def is_there(real: str) -> bool:
    """Return True if something, perhaps a link, is at a real path, with no link in its parent folders."""
    try:
        with dir_entry(real) as at:
            at.status()
    except OSError:
        return False
    return True


def _descended(real: str, last: int, made: list[str] | None, within: int | None = None) -> int:
    _refuse_too_long(real)
    start = "/" if real.startswith("/") else "."
    names = [name for name in real.split("/") if name and name != "."]
    fd = os.open(start, _SEARCHED if names else last, dir_fd=within)
    at = "" if start == "/" else start
    try:
        for number, name in enumerate(names, 1):
            at = f"{at}/{name}"
            below = _entered(fd, name, last if number == len(names) else _SEARCHED, at, made)
            os.close(fd)
            fd = below
    except BaseException:
        os.close(fd)
        raise
    return fd


def _entered(fd: int, name: str, flags: int, path: str, made: list[str] | None) -> int:
    """Open a subfolder."""
    try:
        return os.open(name, flags, dir_fd=fd)
    except FileNotFoundError:
        if made is None:
            raise
    except NotADirectoryError as error:
        kind = stat.S_IFMT(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
        if kind in (stat.S_IFLNK, stat.S_IFDIR):  # a folder now: it was a link a moment ago
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error
        raise
    with contextlib.suppress(FileExistsError):  # somebody else has created it
        os.mkdir(name, dir_fd=fd)
        made.append(path)
    return os.open(name, flags, dir_fd=fd)


def _refuse_too_long(real: str) -> None:
    """Refuse paths too long to be accessed by name, which descriptors alone would allow to create."""
    if len(real) > _SURELY_SHORT and len(os.fsencode(real)) >= os.pathconf("/", "PC_PATH_MAX"):
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
