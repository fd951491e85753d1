"""Putting new content in a file's place: all of it or none, never over what somebody else wrote meanwhile, and
keeping what hangs on the file (mode, owner, attributes). A further name of the file (a hard link) keeps the old
content and mode: it may lie anywhere, in the store of a package manager for one. Writers of one folder take turns.
All of it happens in the folder that is held open, so that no link put there meanwhile leads it elsewhere
(`fs.nofollow`)."""

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence

from agent_cli.fs.files import draft, replace_file, wait_for_lock, write_end
from agent_cli.fs.nofollow import DirEntryFd, dir_entry

from .reader import FileError, Stamp, chunks, explain_error, open_at, stamp

LOCK_TIMEOUT_S = 2.0
_LONGEST_NAME = 230
"""Bytes; with what a backup adds to it a name must still be one."""
_MOST_NEW_FOLDERS = 900
"""Deeper trees trip up whatever walks them."""


def write_atomic(
    real: str, shown: str, data: bytes, expected: Stamp | None, *, mode: int | None = None, like: str = ""
) -> Stamp:
    """Put `data` in place of the file's content, all of it or none; gives the new state.

    `expected` is the state the content was made from: mode, owner and attributes are kept, and a file that
    has changed since is left alone. None creates a new file, with its folders, and refuses to replace one;
    it gets `mode`, where given, or mode, owner and attributes of the file `like`. A file of another owner is
    written in place, or refused when it has further names.

    Raises:
        FileError: changed meanwhile, not permitted, no space; the old content is untouched.
    """
    try:
        with _reached(real, shown, makes_folders=expected is None) as at:
            if expected is not None:
                _check_writable(at, shown, expected)
            with _turn(at, shown):
                _check_unchanged(at, shown, expected)
                if expected is not None:
                    return _replaced(at, shown, data, expected, mode)
                return _created(at, shown, data, mode, like)
    except OSError as error:
        raise FileError(explain_error(shown, error, real)) from error


def _replaced(at: DirEntryFd, shown: str, data: bytes, expected: Stamp, mode: int | None) -> Stamp:
    status = at.status()
    with draft(at.name, data, dir_fd=at.folder) as (name, fd):
        _liken(fd, status)
        if mode is not None:
            os.fchmod(fd, stat.S_IMODE(mode))
        if _is_anothers(status, os.fstat(fd)):
            if status.st_nlink > 1:
                raise FileError(
                    f"{shown} has another owner and further names (hard links), which a write would change too;"
                    " nothing was written"
                )
            os.unlink(name, dir_fd=at.folder)  # makes room for the backup
            _write_in_place(at, shown, data, expected)
        else:
            _keep_attributes(at, fd)
            os.fsync(fd)
            _check_unchanged(at, shown, expected)
            os.replace(name, at.name, src_dir_fd=at.folder, dst_dir_fd=at.folder)
    return stamp(at.status())


def _created(at: DirEntryFd, shown: str, data: bytes, mode: int | None, like: str) -> Stamp:
    with dir_entry(like) if like else contextlib.nullcontext() as source:
        with draft(at.name, data, mode=0o600 if source else 0o666, dir_fd=at.folder) as (name, fd):
            if source:
                _liken(fd, source.status())
            if mode is not None:
                os.fchmod(fd, stat.S_IMODE(mode))
            if source:
                _keep_attributes(source, fd)
            os.fsync(fd)
            _check_unchanged(at, shown, None)
            os.replace(name, at.name, src_dir_fd=at.folder, dst_dir_fd=at.folder)
        return stamp(at.status())


def remove(real: str, shown: str, expected: Stamp, folders: tuple[str, ...] = ()) -> None:
    """Delete a file or link that is still in the state it was known in, and `folders` made for it.

    Raises:
        FileError: changed or deleted meanwhile, or not permitted.
    """
    try:
        with dir_entry(real) as at, _turn(at, shown):
            _check_unchanged(at, shown, expected)
            at.unlink()
    except OSError as error:
        raise FileError(explain_error(shown, error, real)) from error
    _remove_empty(folders)


def put_link(real: str, shown: str, target: str) -> None:
    """Make a symbolic link.

    Raises:
        FileError: something is there, or it is not permitted.
    """
    try:
        with dir_entry(real) as at:
            os.symlink(target, at.name, dir_fd=at.folder)
    except OSError as error:
        raise FileError(explain_error(shown, error, real)) from error


def set_executable(real: str, shown: str, executable: bool, expected: Stamp) -> Stamp:
    """Let all who may read a file run it too, or nobody; gives the new state. A further name of the file (a hard
    link) keeps the old mode.

    Raises:
        FileError: changed or deleted meanwhile, or not permitted.
    """
    mode = expected.mode & ~0o111 | ((expected.mode & 0o444) >> 2 if executable else 0)
    try:
        with dir_entry(real) as at, _turn(at, shown):
            _check_unchanged(at, shown, expected)
            fd, status = open_at(at, shown)
            try:
                _refuse_other(stamp(status), shown, expected)
                if status.st_nlink > 1:  # the mode belongs to all names of the file
                    return _replaced(at, shown, b"".join(chunks(fd)), expected, mode)
                os.fchmod(fd, stat.S_IMODE(mode))
                return stamp(os.fstat(fd))
            finally:
                os.close(fd)
    except OSError as error:
        raise FileError(explain_error(shown, error, real)) from error


def missing_folders(real: str) -> tuple[str, ...]:
    """Return the folders that have to be made for a file, outermost first."""
    missing: list[str] = []
    folder = os.path.dirname(real)
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return tuple(reversed(missing))


@contextlib.contextmanager
def _reached(real: str, shown: str, *, makes_folders: bool) -> Iterator[DirEntryFd]:
    """The place; folders made for it go again when the work fails."""
    if makes_folders and len(missing_folders(real)) > _MOST_NEW_FOLDERS:
        raise FileError(f"{shown} is in more than {_MOST_NEW_FOLDERS} folders that do not exist yet")
    made: list[str] = []
    try:
        with dir_entry(real, made if makes_folders else None) as at:
            yield at
    except BaseException:
        _remove_empty(made)
        raise


def _remove_empty(folders: Sequence[str]) -> None:
    for folder in reversed(folders):
        with contextlib.suppress(OSError), dir_entry(folder) as at:  # somebody else put something there
            os.rmdir(at.name, dir_fd=at.folder)


def _check_writable(at: DirEntryFd, shown: str, expected: Stamp) -> None:
    """A file that is gone is left to `_check_unchanged`."""
    try:
        at.status()
    except FileNotFoundError:
        return
    if not (expected.mode & 0o222 and os.access(at.name, os.W_OK, dir_fd=at.folder)):
        raise FileError(f"{shown} is write-protected")
    if left := _cut_short(at):
        raise FileError(left.format(shown=shown))


@contextlib.contextmanager
def _turn(at: DirEntryFd, shown: str) -> Iterator[None]:
    """Keeps other agents from writing in the folder; file systems without locks do without."""
    try:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at.folder)
    except PermissionError:  # a folder may be written to and yet not be read, and so not be locked
        yield
        return
    try:
        try:
            wait_for_lock(fd, LOCK_TIMEOUT_S)
        except TimeoutError as error:
            raise FileError(
                f"{shown}: another program keeps its folder locked; nothing was written, try again later"
            ) from error
        except OSError:  # NFS without a lock daemon, FUSE: writers there do without turns
            pass
        yield
    finally:
        os.close(fd)


def _liken(fd: int, like: os.stat_result) -> None:
    if os.fstat(fd).st_gid != like.st_gid:
        with contextlib.suppress(OSError):  # then it is written in place
            os.fchown(fd, -1, like.st_gid)
    if os.fstat(fd).st_uid != like.st_uid:
        with contextlib.suppress(OSError):
            os.fchown(fd, like.st_uid, -1)
    os.fchmod(fd, stat.S_IMODE(like.st_mode))
    _show_change(fd, like)


def _is_anothers(status: os.stat_result, new: os.stat_result) -> bool:
    """Return whether putting another file in its place would take it from its owner."""
    return (new.st_uid, new.st_gid) != (status.st_uid, status.st_gid)


def cut_short(real: str) -> str:
    """Return what there is to do, with `{shown}` for the file, when a write in place was cut short by a crash;
    empty when none was. A backup of exactly what stands in the file is of no use and is removed."""
    try:
        with dir_entry(real) as at:
            return _cut_short(at)
    except OSError:  # whatever is wrong with its folder comes up when it is read
        return ""


def _cut_short(at: DirEntryFd) -> str:
    backup = DirEntryFd(at.folder, _backup_name(at.name))
    try:
        backup.status()
    except OSError:
        return ""
    with contextlib.suppress(OSError, FileError):
        if _content(backup) == _content(at):
            backup.unlink()
            return ""
    name = backup.name.replace("{", "{{").replace("}", "}}")
    return (
        "An earlier write of {shown} was cut short, so its content may be half old, half new; the content from"
        f" before is in {name} beside it. Nothing was written. Compare the two; to restore: cat {name} >"
        " the file. Then delete the backup and go on."
    )


def _content(at: DirEntryFd) -> bytes:
    fd, _ = open_at(at, at.name)
    try:
        return b"".join(chunks(fd))
    finally:
        os.close(fd)


def _backup_name(name: str) -> str:
    if len(os.fsencode(name)) > _LONGEST_NAME:
        import hashlib

        name = hashlib.blake2b(os.fsencode(name), digest_size=16).hexdigest()
    return f".{name}.agent-backup"


def _write_in_place(at: DirEntryFd, shown: str, data: bytes, expected: Stamp) -> None:
    """Overwrite the file itself. The old content lies beside it, as `.NAME.agent-backup`, until it is done, so
    that it can be restored after a crash in between (`cut_short`); a failure brings it back at once."""
    fd = at.open(os.O_RDWR)
    try:
        before = os.fstat(fd)
        _refuse_other(stamp(before), shown, expected)
        old = b"".join(chunks(fd))
        backup = DirEntryFd(at.folder, _backup_name(at.name))
        replace_file(backup.name, old, dir_fd=at.folder, durable=True)
        try:
            write_end(fd, data)
        except BaseException:
            write_end(fd, old)
            backup.unlink()
            raise
        _show_change(fd, before)
    finally:
        os.close(fd)
    backup.unlink()


def _show_change(fd: int, before: os.stat_result) -> None:
    """Let the time of change grow with every write, even within one tick of the clock, so that no state of a
    file is ever taken for an earlier one."""
    now = os.fstat(fd)
    if now.st_mtime_ns <= before.st_mtime_ns:
        os.utime(fd, ns=(now.st_atime_ns, before.st_mtime_ns + 1))


def _keep_attributes(source: DirEntryFd, target: int) -> None:
    """Copy extended attributes, access lists among them, as far as the system allows."""
    if not hasattr(os, "listxattr"):
        return
    with contextlib.suppress(OSError):
        fd = source.open(os.O_RDONLY)
        try:
            for name in os.listxattr(fd):
                with contextlib.suppress(OSError):
                    os.setxattr(target, name, os.getxattr(fd, name))
        finally:
            os.close(fd)


def _check_unchanged(at: DirEntryFd, shown: str, expected: Stamp | None) -> None:
    try:
        now = stamp(at.status())
    except FileNotFoundError:
        now = None
    if now is not None and expected is None:
        raise FileError(f"{shown} was created in the meantime; nothing was written")
    _refuse_other(now, shown, expected)


def _refuse_other(now: Stamp | None, shown: str, expected: Stamp | None) -> None:
    if now is None and expected is not None:
        raise FileError(f"{shown} was deleted in the meantime; nothing was written")
    if now != expected:
        raise FileError(f"{shown} was changed by someone else in the meantime; read it again")
