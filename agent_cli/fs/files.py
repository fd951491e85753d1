"""Open, read, write, replace and lock files. A pipe, a device or a link may be in place of the expected file:
nothing here blocks on one, and the last component of a path is followed as a link only on request."""

import contextlib
import errno
import fcntl
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from agent_cli.protocol.lazy_regex import lazy_regex

AnyPath = str | os.PathLike[str]
SAFE_OPEN_FLAGS = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Open flags that avoid blocking on a pipe and acquiring a controlling terminal."""
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
_POLL_S = 0.005
_LINE_BYTES = 256
_MFD_NOEXEC_SEAL = 8
"""Demanded by systems with `vm.memfd_noexec=2`, unknown to kernels before 6.3."""
_DRAFT = lazy_regex(r"\.agent-(\d{1,9})-[0-9a-f]{12}\.tmp")


class Disk:
    """The low-level disk operations, so that a test can simulate a power failure between them."""

    def write(self, descriptor: int, data: bytes | memoryview, at: int) -> int:
        """Write some of the data at offset `at`, and return the number of bytes written."""
        return os.pwrite(descriptor, data, at)

    def cut(self, descriptor: int, size: int) -> None:
        """Truncate a file to a size in bytes."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Wait until the data of a file, or the entries of a folder, are on disk."""
        os.fsync(descriptor)


DISK = Disk()


def open_regular(
    path: AnyPath, flags: int = os.O_RDONLY, *, follow: bool = False, dir_fd: int | None = None
) -> int:
    """Return a descriptor of an existing regular file. The last component may be a link only with `follow`.

    Raises:
        OSError: it is missing, a link (ELOOP), not a regular file, or may not be opened this way.
    """
    descriptor = os.open(path, flags | SAFE_OPEN_FLAGS | (0 if follow else os.O_NOFOLLOW), dir_fd=dir_fd)
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
    """Return the content of a regular file from byte `start` on, at most `most_bytes` if that is not negative.
    With `from_end`, return its last bytes.

    Raises:
        OSError: as in `open_regular`, or it cannot be read.
    """
    with os.fdopen(open_regular(path, follow=follow, dir_fd=dir_fd), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most_bytes) if from_end else start)
        return file.read(most_bytes)


def read_descriptor(descriptor: int) -> bytes:
    """Return the whole content of an open file, even if it was deleted.

    Raises:
        OSError: it cannot be read.
    """
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        return file.read()


def first_line(path: AnyPath, most_bytes: int = _LINE_BYTES) -> str:
    """Return the first line of a small file, without surrounding white space. Only the first `most_bytes` are
    read.

    Raises:
        OSError: as in `read_regular`, or the line contains a NUL, which no name can.
    """
    line = read_regular(path, most_bytes).partition(b"\n")[0]
    if b"\0" in line:
        raise OSError(errno.EINVAL, "not a line of text")
    return os.fsdecode(line.strip())


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, accessible to their owner only. Existing folders are not changed.

    Raises:
        NotADirectoryError: one of them exists and is not a folder.
        OSError: one cannot be created.
    """
    for each in reversed([folder, *folder.parents]):  # `parents=True` would create parents with the default mode
        try:
            if not each.is_dir():
                each.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError as error:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(each)) from error


def write_end(descriptor: int, data: bytes, at: int = 0, *, durable: bool = True, disk: Disk = DISK) -> None:
    """Write all data as the end of a file; with `durable`, wait until it is on disk.

    Raises:
        OSError: the disk is full or fails.
    """
    view = memoryview(data)
    written = 0
    while written < len(data):
        written += disk.write(descriptor, view[written:], at + written)
    disk.cut(descriptor, at + len(data))
    if durable:
        disk.sync(descriptor)


def sync_folder(folder: AnyPath, disk: Disk = DISK) -> None:
    """Wait until the entries of a folder are on disk.

    Raises:
        OSError: syncing failed.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        disk.sync(descriptor)
    finally:
        os.close(descriptor)


def _draft_name(path: AnyPath) -> str:
    """Return a name for a draft next to `path`, which contains the id of the writing process."""
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
    """Write data to a new file next to `path`, to be moved or linked there. Yield its path and its descriptor,
    open for reading and writing. A file that was not moved is deleted at the end.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    name = _draft_name(path)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | SAFE_OPEN_FLAGS
    descriptor = os.open(name, flags, mode, dir_fd=dir_fd)
    try:
        write_end(descriptor, data, durable=durable, disk=disk)
        yield name, descriptor
    finally:
        os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=dir_fd)


def replace_file(
    path: AnyPath,
    data: bytes,
    *,
    mode: int = 0o600,
    dir_fd: int | None = None,
    durable: bool = False,
    disk: Disk = DISK,
) -> None:
    """Replace what is at `path` with a file, atomically. `mode` applies regardless of the umask.

    Raises:
        OSError: it cannot be written; the old file is unchanged.
    """
    with draft(path, data, dir_fd=dir_fd, durable=durable, disk=disk) as (name, descriptor):
        if mode != 0o600:
            os.fchmod(descriptor, stat.S_IMODE(mode))
        os.replace(name, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)


def replace_link(path: AnyPath, target: str, *, dir_fd: int | None = None) -> None:
    """Replace what is at `path` with a symbolic link, atomically.

    Raises:
        OSError: it cannot be created; the old file is unchanged.
    """
    name = _draft_name(path)
    os.symlink(target, name, dir_fd=dir_fd)
    try:
        os.replace(name, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except OSError:
        os.unlink(name, dir_fd=dir_fd)
        raise


def create_file(path: AnyPath, data: bytes) -> None:
    """Create a file, readable by its owner only. Never overwrite anything.

    Raises:
        FileExistsError: the path exists, perhaps as a link.
        OSError: it cannot be written; nothing is left behind.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | SAFE_OPEN_FLAGS, 0o600)
    try:
        write_end(descriptor, data, durable=False)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)


def unnamed_file(data: bytes = b"") -> int:
    """Return a descriptor of a file without a name, positioned at its start: in memory where the system offers
    that, since making a file on a disk can take a millisecond.

    Raises:
        OSError: no memory, space or descriptor is left.
    """
    descriptor = _in_memory()
    if descriptor is None:
        import tempfile

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        write_end(descriptor, data, durable=False)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _in_memory() -> int | None:
    if sys.platform == "linux" and hasattr(os, "memfd_create"):
        for flags in (os.MFD_CLOEXEC | _MFD_NOEXEC_SEAL, os.MFD_CLOEXEC):
            with contextlib.suppress(OSError):
                return os.memfd_create("agent", flags)
    return None


def sweep_drafts(folder: str) -> None:
    """Delete drafts left in a folder by killed processes."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if (found := _DRAFT.fullmatch(name)) and not is_running(int(found[1])):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))


def reason_of(error: BaseException, known: AnyPath = "") -> str:
    """Return an error in words: that of the system without its number, with its file unless that is `known`; any
    other as it is."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    return f"{error.strerror}: {name}" if name and name != os.fspath(known) else error.strerror


def is_running(pid: int) -> bool:
    """Return True if a process exists, even one of another user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock a file or folder until its descriptor is closed. Return False if another process holds the lock.
    Several processes may hold it `shared`.

    Raises:
        OSError: its file system does not support locks.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        raise
    return True


def wait_for_lock(descriptor: int, timeout_s: float) -> None:
    """Lock a file or folder until its descriptor is closed, waiting for the lock.

    Raises:
        TimeoutError: another process holds the lock for longer than `timeout_s`.
        OSError: its file system does not support locks.
    """
    until = time.monotonic() + timeout_s
    while not try_lock(descriptor):
        if time.monotonic() > until:
            raise TimeoutError(errno.ETIMEDOUT, "another program keeps it locked")
        time.sleep(_POLL_S)


@contextlib.contextmanager
def file_lock(path: Path, timeout_s: float = 10.0) -> Iterator[None]:
    """Hold the lock of a file that is read and replaced: `NAME.lock` next to it. The folder is created if
    necessary.

    Raises:
        OSError: the folder cannot be written, or as in `wait_for_lock`.
    """
    make_private(path.parent)
    lock = path.with_name(f"{path.name}.lock")  # the file itself gets a new inode with each replacement
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | SAFE_OPEN_FLAGS, 0o600)
    try:
        wait_for_lock(descriptor, timeout_s)
        yield
    finally:
        os.close(descriptor)
