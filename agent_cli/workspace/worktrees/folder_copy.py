"""Copy a folder and its contents: files by reflink if the file system supports it, links as links, hard links as
separate files. Sockets, pipes and devices are left out."""

import errno
import fcntl
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from agent_cli.fs.files import open_regular, reason_of

from .worktree import WorktreeError

_FICLONE = 0x40049409
_CANNOT = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS)
_CHUNK = 1 << 20


def copy_folder(source: Path, target: Path, check_space: Callable[[int], None] | None = None) -> None:
    """Copy the contents of a folder to another existing one.

    Args:
        source: the folder; nothing in it is changed.
        target: an empty folder outside of it.
        check_space: called with the size of all files before the first is copied.

    Raises:
        WorktreeError: something cannot be read or written.
    """
    try:
        if check_space is not None:
            check_space(sum(each.lstat().st_size for each in _files(source)))
        _copied(str(source), str(target))
    except OSError as error:
        raise WorktreeError(f"{source} cannot be copied: {reason_of(error)}") from error


def _files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder, onerror=_raised):
        yield from (path for name in names if stat.S_ISREG((path := Path(place, name)).lstat().st_mode))


def _raised(error: OSError) -> None:
    raise error


def _copied(source: str, target: str) -> None:
    folders = [(source, target)]
    made: list[tuple[str, os.stat_result]] = []
    while folders:
        here, there = folders.pop()
        with os.scandir(here) as entries:
            for entry in entries:
                to, status = os.path.join(there, entry.name), entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    os.mkdir(to, 0o700)
                    folders.append((entry.path, to))
                    made.append((to, status))
                elif stat.S_ISLNK(status.st_mode):
                    os.symlink(os.readlink(entry.path), to)
                elif stat.S_ISREG(status.st_mode):
                    _copied_file(entry.path, to)
    for path, status in reversed(made):  # modes last, since a folder may be read-only
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.chmod(path, stat.S_IMODE(status.st_mode))


def _copied_file(source: str, target: str) -> None:
    with os.fdopen(open_regular(source), "rb") as original:
        status = os.fstat(original.fileno())
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(target, flags, 0o600), "wb") as copy:
            if not _is_cloned(original.fileno(), copy.fileno()):
                shutil.copyfileobj(original, copy, _CHUNK)
            copy.flush()
            os.fchmod(copy.fileno(), stat.S_IMODE(status.st_mode))
            os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))


def _is_cloned(original: int, copy: int) -> bool:
    """Share the blocks of a file (copy on write). Return False if that is not supported."""
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(copy, _FICLONE, original)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        return False
    return True
