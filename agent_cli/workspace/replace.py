"""Putting new content in a file's place: all of it or none, never over what somebody else wrote meanwhile, and
keeping what hangs on the file (mode, owner, attributes, hard links). Writers of one folder take turns."""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator

from .files import FileError, Stamp, stamp, stamp_of, why

LOCK_TIMEOUT_S = 2.0
_POLL_S = 0.01
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


def write_atomic(real: str, shown: str, data: bytes, expected: Stamp | None, *, mode: int | None = None) -> Stamp:
    """Put `data` in place of the file's content, all of it or none; gives the new state.

    `expected` is the state the content was made from: mode, owner and attributes are kept, and a file that
    has changed since is left alone. None creates a new file (with `mode`, where given), with its folders,
    and refuses to replace one. A file with several hard links, or of another owner, is written in place.

    Raises:
        FileError: changed meanwhile, not permitted, no space; the old content is untouched.
    """
    folder = os.path.dirname(real)
    temporary = os.path.join(folder, f".agent-{os.urandom(6).hex()}.tmp")
    try:
        if expected is None:
            os.makedirs(folder, exist_ok=True)
        elif os.path.lexists(real) and not (expected.mode & 0o222 and os.access(real, os.W_OK)):
            raise FileError(f"{shown} is write-protected")
        with _turn(folder, shown):
            _check_unchanged(real, shown, expected)
            status = os.lstat(real) if expected else None
            _write_new(temporary, data, status)
            try:
                if mode is not None:
                    os.chmod(temporary, stat.S_IMODE(mode))
                if status is not None and _must_stay(status, temporary):
                    _write_in_place(real, shown, data, temporary, status)
                else:
                    if status is not None:
                        _keep_attributes(real, temporary)
                    _check_unchanged(real, shown, expected)
                    os.rename(temporary, real)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)
                raise
            return stamp(os.lstat(real))
    except OSError as error:
        raise FileError(why(shown, error, real)) from error


def remove(real: str, shown: str, expected: Stamp) -> None:
    """Delete a file that is still in the state it was known in.

    Raises:
        FileError: changed or deleted meanwhile, or not permitted.
    """
    try:
        with _turn(os.path.dirname(real), shown):
            _check_unchanged(real, shown, expected)
            os.unlink(real)
    except OSError as error:
        raise FileError(why(shown, error, real)) from error


@contextlib.contextmanager
def _turn(folder: str, shown: str) -> Iterator[None]:
    """Keeps other agents from writing in the folder; file systems without locks do without."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:  # a folder may be written to and yet not be read, and so not be locked
        yield
        return
    try:
        until = time.monotonic() + LOCK_TIMEOUT_S
        while not _locked(fd):
            if time.monotonic() > until:
                raise FileError(
                    f"{shown}: another program keeps its folder locked; nothing was written, try again later"
                )
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _BUSY
    return True


def _write_new(path: str, data: bytes, like: os.stat_result | None) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if like else 0o666)
    try:
        _write_all(fd, data)
        if like is not None and os.fstat(fd).st_gid != like.st_gid:
            with contextlib.suppress(OSError):  # then it is written in place
                os.fchown(fd, -1, like.st_gid)
        if like is not None and os.fstat(fd).st_uid != like.st_uid:
            with contextlib.suppress(OSError):
                os.fchown(fd, like.st_uid, -1)
        if like is not None:
            os.fchmod(fd, stat.S_IMODE(like.st_mode))
            _show_change(fd, like)
        os.fsync(fd)
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _must_stay(status: os.stat_result, temporary: str) -> bool:
    """Whether putting another file in its place would cut links or take it from its owner."""
    new = os.lstat(temporary)
    return status.st_nlink > 1 or (new.st_uid, new.st_gid) != (status.st_uid, status.st_gid)


def _write_in_place(real: str, shown: str, data: bytes, journal: str, status: os.stat_result) -> None:
    """Overwrite the file itself. The new content lies in `journal` until it is done, so that a crash in
    between loses neither side; a failure brings the old content back."""
    fd = os.open(real, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        old = b"".join(iter(lambda: os.read(fd, 1 << 20), b""))
        try:
            _overwrite(fd, data)
        except BaseException:
            _overwrite(fd, old)
            raise
        _show_change(fd, status)
    finally:
        os.close(fd)
    os.unlink(journal)


def _show_change(fd: int, before: os.stat_result) -> None:
    """Let the time of change grow with every write, even within one tick of the clock, so that no state of a
    file is ever taken for an earlier one."""
    now = os.fstat(fd)
    if now.st_mtime_ns <= before.st_mtime_ns:
        os.utime(fd, ns=(now.st_atime_ns, before.st_mtime_ns + 1))


def _overwrite(fd: int, data: bytes) -> None:
    os.lseek(fd, 0, os.SEEK_SET)
    _write_all(fd, data)
    os.ftruncate(fd, len(data))
    os.fsync(fd)


def _keep_attributes(source: str, target: str) -> None:
    """Copy extended attributes, access lists among them, as far as the system allows."""
    if not hasattr(os, "listxattr"):
        return
    with contextlib.suppress(OSError):
        for name in os.listxattr(source):
            with contextlib.suppress(OSError):
                os.setxattr(target, name, os.getxattr(source, name))


def _check_unchanged(real: str, shown: str, expected: Stamp | None) -> None:
    now = stamp_of(real)
    if now is None and expected is not None:
        raise FileError(f"{shown} was deleted meanwhile; nothing was written")
    if now is not None and expected is None:
        raise FileError(f"{shown} came into being meanwhile; nothing was written")
    if now != expected:
        raise FileError(f"{shown} was changed by someone else meanwhile; read it again")
