"""Open, read, write, replace and lock files. A pipe, a device or a link may lie where a file is expected: nothing
here waits for one, and nothing follows the last link of a path unless asked to."""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from agent_cli.protocol.lazy_regex import lazy_regex

AnyPath = str | os.PathLike[str]
PLAIN = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Flags with which an open waits for no pipe and takes no terminal."""
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
_POLL_S = 0.005
_LINE_BYTES = 256
_DRAFT = lazy_regex(r"\.agent-(\d{1,9})-[0-9a-f]{12}\.tmp")


class Disk:
    """The operations that bring a file to the disk, one each, so that a test can cut the power between them."""

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


def open_regular(
    path: AnyPath, flags: int = os.O_RDONLY, *, follow: bool = False, dir_fd: int | None = None
) -> int:
    """Return a descriptor of a regular file that exists. The last name may be a link only with `follow`.

    Raises:
        OSError: it is missing, a link (ELOOP) or no regular file, or may not be opened so.
    """
    descriptor = os.open(path, flags | PLAIN | (0 if follow else os.O_NOFOLLOW), dir_fd=dir_fd)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file")


def read_regular(
    path: AnyPath,
    most_bytes: int = -1,
    *,
    follow: bool = False,
    start: int = 0,
    from_end: bool = False,
    dir_fd: int | None = None,
) -> bytes:
    """Return what a regular file holds from the byte `start` on, at most `most_bytes` if that is not negative;
    with `from_end` its last bytes.

    Raises:
        OSError: as `open_regular`, or it cannot be read.
    """
    with os.fdopen(open_regular(path, follow=follow, dir_fd=dir_fd), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most_bytes) if from_end else start)
        return file.read(most_bytes)


def read_descriptor(descriptor: int) -> bytes:
    """Return all that the file of a descriptor holds, removed or not.

    Raises:
        OSError: it cannot be read.
    """
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        return file.read()


def first_line(path: AnyPath, most_bytes: int = _LINE_BYTES) -> str:
    """Return the first line of a small file, without white space around it; a longer file is cut.

    Raises:
        OSError: as `read_regular`, or it has a NUL, which is in no name.
    """
    line = read_regular(path, most_bytes).partition(b"\n")[0]
    if b"\0" in line:
        raise OSError(errno.EINVAL, "not a line of text")
    return os.fsdecode(line.strip())


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, readable by their owner only. One that exists stays as
    it is.

    Raises:
        NotADirectoryError: one of them is something else.
        OSError: one cannot be made.
    """
    for each in reversed([folder, *folder.parents]):  # `parents=True` would give those above the usual mode
        try:
            if not each.is_dir():
                each.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError as error:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(each)) from error


def write_end(descriptor: int, data: bytes, at: int = 0, *, durable: bool = True, disk: Disk = DISK) -> None:
    """Write all the data as the end of a file; with `durable`, wait until the disk has it.

    Raises:
        OSError: it does not fit, or the disk is gone.
    """
    view = memoryview(data)
    written = 0
    while written < len(data):
        written += disk.write(descriptor, view[written:], at + written)
    disk.cut(descriptor, at + len(data))
    if durable:
        disk.sync(descriptor)


def sync_folder(folder: AnyPath, disk: Disk = DISK) -> None:
    """Wait until the disk knows the names in a folder.

    Raises:
        OSError: it does not.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        disk.sync(descriptor)
    finally:
        os.close(descriptor)


def _draft_name(path: AnyPath) -> str:
    """Name a file beside `path`; the name says which process is writing it."""
    return os.path.join(os.path.dirname(path), f".agent-{os.getpid()}-{os.urandom(6).hex()}.tmp")


@contextlib.contextmanager
def draft(
    path: AnyPath,
    data: bytes,
    *,
    mode: int = 0o600,
    dir_fd: int | None = None,
    durable: bool = False,
    disk: Disk = DISK,
) -> Iterator[tuple[str, int]]:
    """Write data to a new file beside `path`, to be moved or linked there; yields its path and its descriptor,
    open for reading and writing. What was not moved is removed at the end.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    name = _draft_name(path)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | PLAIN
    descriptor = os.open(name, flags, mode, dir_fd=dir_fd)
    try:
        write_end(descriptor, data, durable=durable, disk=disk)
        yield name, descriptor
    finally:
        os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=dir_fd)


def replace_file(
    path: AnyPath, data: bytes, *, mode: int = 0o600, dir_fd: int | None = None, durable: bool = False
) -> None:
    """Put a file in the place of what is at `path`: all of it or nothing. `mode` holds whatever the umask is.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    with draft(path, data, dir_fd=dir_fd, durable=durable) as (name, descriptor):
        if mode != 0o600:
            os.fchmod(descriptor, stat.S_IMODE(mode))
        os.replace(name, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)


def replace_link(path: AnyPath, target: str, *, dir_fd: int | None = None) -> None:
    """Put a symbolic link in the place of what is at `path`.

    Raises:
        OSError: it cannot be made; what was there stays.
    """
    name = _draft_name(path)
    os.symlink(target, name, dir_fd=dir_fd)
    try:
        os.replace(name, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except OSError:
        os.unlink(name, dir_fd=dir_fd)
        raise


def create_file(path: AnyPath, data: bytes) -> None:
    """Write a new file, readable by its owner only, and never over what is there.

    Raises:
        FileExistsError: something is there, be it a link.
        OSError: it cannot be written; nothing is left behind.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | PLAIN, 0o600)
    try:
        write_end(descriptor, data, durable=False)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)


def sweep_drafts(folder: str) -> None:
    """Remove drafts that killed processes have left in a folder."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if (found := _DRAFT.fullmatch(name)) and not is_running(int(found[1])):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))


def is_running(pid: int) -> bool:
    """Return whether a process is there, be it of another user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock a file or folder until its descriptor is closed; False when another program holds it. Several may hold
    it `shared`.

    Raises:
        OSError: its file system has no locks.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        raise
    return True


def wait_for_lock(descriptor: int, timeout_s: float) -> None:
    """Lock a file or folder until its descriptor is closed.

    Raises:
        TimeoutError: another program holds the lock for longer than `timeout_s`.
        OSError: its file system has no locks.
    """
    until = time.monotonic() + timeout_s
    while not try_lock(descriptor):
        if time.monotonic() > until:
            raise TimeoutError(errno.ETIMEDOUT, "another program keeps it locked")
        time.sleep(_POLL_S)


@contextlib.contextmanager
def file_lock(path: Path, timeout_s: float = 10.0) -> Iterator[None]:
    """Hold the lock of a file that is read and replaced, `NAME.lock` beside it; makes the folder where needed.

    Raises:
        OSError: the folder cannot be written, or as `wait_for_lock`.
    """
    make_private(path.parent)
    lock = path.with_name(f"{path.name}.lock")  # the file itself is another one after each replacement
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | PLAIN, 0o600)
    try:
        wait_for_lock(descriptor, timeout_s)
        yield
    finally:
        os.close(descriptor)
