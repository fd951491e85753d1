"""Putting new content in a file's place: all of it or none, never over what somebody else wrote meanwhile, and
keeping what hangs on the file (mode, owner, attributes, hard links). Writers of one folder take turns."""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from .files import FileError, Stamp, stamp, stamp_of, why

LOCK_TIMEOUT_S = 2.0
_POLL_S = 0.01
_LONGEST_NAME = 230
"""Bytes; with what a backup adds to it a name must still be one."""
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


def write_atomic(
    real: str, shown: str, data: bytes, expected: Stamp | None, *, mode: int | None = None, like: str = ""
) -> Stamp:
    """Put `data` in place of the file's content, all of it or none; gives the new state.

    `expected` is the state the content was made from: mode, owner and attributes are kept, and a file that
    has changed since is left alone. None creates a new file, with its folders, and refuses to replace one;
    it gets `mode`, where given, or mode, owner and attributes of the file `like`. A file with several hard
    links, or of another owner, is written in place.

    Raises:
        FileError: changed meanwhile, not permitted, no space; the old content is untouched.
    """
    folder = os.path.dirname(real)
    try:
        if expected is not None and os.path.lexists(real):
            _check_writable(real, shown, expected)
        with _folders(folder if expected is None else ""), _turn(folder, shown):
            _check_unchanged(real, shown, expected)
            source = real if expected else like
            status = os.lstat(source) if source else None
            temporary = os.path.join(folder, f".agent-{os.urandom(6).hex()}.tmp")
            _write_new(temporary, data, status)
            try:
                if mode is not None:
                    os.chmod(temporary, stat.S_IMODE(mode))
                if expected is not None and status is not None and _must_stay(status, temporary):
                    os.unlink(temporary)
                    _write_in_place(real, data, temporary, status)
                else:
                    if source:
                        _keep_attributes(source, temporary)
                    _check_unchanged(real, shown, expected)
                    os.rename(temporary, real)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)
                raise
            return stamp(os.lstat(real))
    except OSError as error:
        raise FileError(why(shown, error, real)) from error


def remove(real: str, shown: str, expected: Stamp, folders: tuple[str, ...] = ()) -> None:
    """Delete a file or link that is still in the state it was known in, and `folders` made for it.

    Raises:
        FileError: changed or deleted meanwhile, or not permitted.
    """
    try:
        with _turn(os.path.dirname(real), shown):
            _check_unchanged(real, shown, expected)
            os.unlink(real)
    except OSError as error:
        raise FileError(why(shown, error, real)) from error
    _remove_empty(folders)


def put_link(real: str, shown: str, target: str) -> None:
    """Make a symbolic link.

    Raises:
        FileError: something is there, or it is not permitted.
    """
    try:
        os.symlink(target, real)
    except OSError as error:
        raise FileError(why(shown, error, real)) from error


def set_executable(real: str, shown: str, executable: bool, expected: Stamp) -> Stamp:
    """Let all who may read a file run it too, or nobody; gives the new state.

    Raises:
        FileError: changed or deleted meanwhile, or not permitted.
    """
    mode = expected.mode & ~0o111 | ((expected.mode & 0o444) >> 2 if executable else 0)
    try:
        with _turn(os.path.dirname(real), shown):
            _check_unchanged(real, shown, expected)
            os.chmod(real, stat.S_IMODE(mode))
            return stamp(os.lstat(real))
    except OSError as error:
        raise FileError(why(shown, error, real)) from error


def missing_folders(real: str) -> tuple[str, ...]:
    """The folders that have to be made for a file, outermost first."""
    missing: list[str] = []
    folder = os.path.dirname(real)
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return tuple(reversed(missing))


@contextlib.contextmanager
def _folders(folder: str) -> Iterator[None]:
    """Makes a folder, where one is given; what was made for it goes again when the work fails."""
    made = missing_folders(os.path.join(folder, "f")) if folder else ()
    if folder:
        os.makedirs(folder, exist_ok=True)
    try:
        yield
    except BaseException:
        _remove_empty(made)
        raise


def _remove_empty(folders: tuple[str, ...]) -> None:
    for folder in reversed(folders):
        with contextlib.suppress(OSError):  # somebody else put something there
            os.rmdir(folder)


def _check_writable(real: str, shown: str, expected: Stamp) -> None:
    if not (expected.mode & 0o222 and os.access(real, os.W_OK)):
        raise FileError(f"{shown} is write-protected")
    if left := cut_short(real):
        raise FileError(left.format(shown=shown))


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


def _write_new(path: str, data: bytes, like: os.stat_result | None, mode: int = 0o666) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if like else mode)
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


def cut_short(real: str) -> str:
    """What there is to do, with `{shown}` for the file, when a write in place was cut short by a crash; empty
    when none was. A backup of exactly what stands in the file is of no use and is removed."""
    backup = _backup_of(real)
    if not os.path.lexists(backup):
        return ""
    with contextlib.suppress(OSError):
        if Path(backup).read_bytes() == Path(real).read_bytes():
            os.unlink(backup)
            return ""
    name = os.path.basename(backup).replace("{", "{{").replace("}", "}}")
    return (
        "An earlier write of {shown} was cut short, so its content may be half old, half new; the content from"
        f" before is in {name} beside it. Nothing was written. Compare the two; to restore: cat {name} >"
        " the file. Then delete the backup and go on."
    )


def _backup_of(real: str) -> str:
    folder, name = os.path.split(real)
    if len(os.fsencode(name)) > _LONGEST_NAME:
        import hashlib

        name = hashlib.blake2b(os.fsencode(name), digest_size=16).hexdigest()
    return os.path.join(folder, f".{name}.agent-backup")


def _write_in_place(real: str, data: bytes, temporary: str, status: os.stat_result) -> None:
    """Overwrite the file itself. The old content lies beside it, as `.NAME.agent-backup`, until it is done, so
    that it can be restored after a crash in between (`cut_short`); a failure brings it back at once."""
    fd = os.open(real, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        old = b"".join(iter(lambda: os.read(fd, 1 << 20), b""))
        backup = _backup_of(real)
        _write_new(temporary, old, None, 0o600)
        os.rename(temporary, backup)  # whole, or not there by its name
        try:
            _overwrite(fd, data)
        except BaseException:
            _overwrite(fd, old)
            os.unlink(backup)
            raise
        _show_change(fd, status)
    finally:
        os.close(fd)
    os.unlink(backup)


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
