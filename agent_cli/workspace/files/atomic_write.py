"""Replace the content of files atomically, never over what somebody else wrote in the meantime, and keeping mode,
owner and attributes. Other hard links to the file keep the old content and mode: they may be anywhere, for example
in the store of a package manager. Writers in one folder take turns. All operations use a descriptor of the folder,
so that no link put there in the meantime can redirect them (`fs.nofollow`)."""

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence

from agent_cli.fs.files import draft, replace_file, wait_for_lock, write_end
from agent_cli.fs.nofollow import DirEntryFd, dir_entry

from .reader import FileError, Stamp, chunks, explain_error, open_at, stamp

LOCK_TIMEOUT_S = 2.0
_LONGEST_NAME = 230
"""Bytes; a name plus the suffix of a backup must still be a valid file name."""
_MOST_NEW_FOLDERS = 900
"""Many programs fail on deeper trees."""


def write_atomic(
    real: str, shown: str, data: bytes, expected: Stamp | None, *, mode: int | None = None, like: str = ""
) -> Stamp:
    """Replace the file's content with `data` atomically and return the new state.

    `expected` is the state that the content is based on: mode, owner and attributes are kept, and a file that has
    changed since is not written. None creates a new file with its folders, and refuses to replace an existing one.
    The new file gets `mode` if given, or mode, owner and attributes of the file `like`. A file with another owner
    is written in place, or refused if it has other hard links.

    Raises:
        FileError: changed in the meantime, not permitted, or no space; the old content is untouched.
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


def restore_file(at: DirEntryFd, data: bytes, mode: int) -> None:
    """Give a path this content and mode, atomically. Owner, group and attributes of a file that is there stay; one
    that only its owner could replace so is written in place.

    Raises:
        OSError: it cannot be written.
    """
    with draft(at.name, data, dir_fd=at.folder) as (name, fd):
        status = _status_of_file(at)
        if status is not None:
            _liken(fd, status)
            _keep_attributes(at, fd)
        elif os.geteuid() == 0 and os.fstat(at.folder).st_uid != 0:
            mode &= ~(stat.S_ISUID | stat.S_ISGID)  # somebody else's program must not run as root
        os.fchmod(fd, stat.S_IMODE(mode))  # last: attributes and a change of owner have a say in it
        if status is not None and _is_anothers(status, os.fstat(fd)) and _is_only_content(status, mode):
            os.unlink(name, dir_fd=at.folder)  # makes room for the backup
            try:
                _write_in_place(at, at.name, data, stamp(status))
            except FileError as error:
                raise OSError(errno.EBUSY, str(error)) from error
        else:
            os.replace(name, at.name, src_dir_fd=at.folder, dst_dir_fd=at.folder)


def _status_of_file(at: DirEntryFd) -> os.stat_result | None:
    try:
        status = at.status()
    except FileNotFoundError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _is_only_content(status: os.stat_result, mode: int) -> bool:
    """Return True if writing in place changes nothing else, and no other name of the file."""
    return status.st_nlink == 1 and stat.S_IMODE(status.st_mode) == stat.S_IMODE(mode)


def remove(real: str, shown: str, expected: Stamp, folders: tuple[str, ...] = ()) -> None:
    """Delete a file or link that is still in its known state, and the `folders` created for it.

    Raises:
        FileError: it was changed or deleted in the meantime, or deletion is not permitted.
    """
    try:
        with dir_entry(real) as at, _turn(at, shown):
            _check_unchanged(at, shown, expected)
            at.unlink()
    except OSError as error:
        raise FileError(explain_error(shown, error, real)) from error
    _remove_empty(folders)


def put_link(real: str, shown: str, target: str) -> None:
    """Create a symbolic link.

    Raises:
        FileError: the path exists, or it is not permitted.
    """
    try:
        with dir_entry(real) as at:
            os.symlink(target, at.name, dir_fd=at.folder)
    except OSError as error:
        raise FileError(explain_error(shown, error, real)) from error


def set_executable(real: str, shown: str, executable: bool, expected: Stamp) -> Stamp:
    """Make a file executable for everyone who may read it, or for nobody, and return the new state. Other hard
    links keep the old mode.

    Raises:
        FileError: it was changed or deleted in the meantime, or the change is not permitted.
    """
    mode = expected.mode & ~0o111 | ((expected.mode & 0o444) >> 2 if executable else 0)
    try:
        with dir_entry(real) as at, _turn(at, shown):
            _check_unchanged(at, shown, expected)
            fd, status = open_at(at, shown)
            try:
                _refuse_other(stamp(status), shown, expected)
                here = at.status()  # the path may have been replaced since: what is open may now be elsewhere
                _refuse_other(stamp(here), shown, expected)
                if here.st_nlink > 1:  # the mode applies to all links of the file
                    return _replaced(at, shown, b"".join(chunks(fd)), expected, mode)
                os.fchmod(fd, stat.S_IMODE(mode))
                return stamp(os.fstat(fd))
            finally:
                os.close(fd)
    except OSError as error:
        raise FileError(explain_error(shown, error, real)) from error


def missing_folders(real: str) -> tuple[str, ...]:
    """Return the folders that must be created for a file, outermost first."""
    missing: list[str] = []
    folder = os.path.dirname(real)
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return tuple(reversed(missing))


@contextlib.contextmanager
def _reached(real: str, shown: str, *, makes_folders: bool) -> Iterator[DirEntryFd]:
    """Yield the place of a file; folders created for it are removed if the work fails."""
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
        with contextlib.suppress(OSError), dir_entry(folder) as at:  # somebody else may have put something there
            os.rmdir(at.name, dir_fd=at.folder)


def _check_writable(at: DirEntryFd, shown: str, expected: Stamp) -> None:
    """Refuse a write-protected file. `_check_unchanged` reports a missing one."""
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
    """Keep other agents from writing in the folder. File systems without locks go unprotected."""
    try:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at.folder)
    except PermissionError:  # a folder may be writable but not readable, and so cannot be locked
        yield
        return
    try:
        try:
            wait_for_lock(fd, LOCK_TIMEOUT_S)
        except TimeoutError as error:
            raise FileError(
                f"{shown}: another program keeps its folder locked; nothing was written, try again later"
            ) from error
        except OSError:  # NFS without a lock daemon, FUSE: no locking there
            pass
        yield
    finally:
        os.close(fd)


def _liken(fd: int, like: os.stat_result) -> None:
    if os.fstat(fd).st_gid != like.st_gid:
        with contextlib.suppress(OSError):  # the file is then written in place
            os.fchown(fd, -1, like.st_gid)
    if os.fstat(fd).st_uid != like.st_uid:
        with contextlib.suppress(OSError):
            os.fchown(fd, like.st_uid, -1)
    os.fchmod(fd, stat.S_IMODE(like.st_mode))
    _show_change(fd, like)


def _is_anothers(status: os.stat_result, new: os.stat_result) -> bool:
    """Return True if replacing the file would change its owner or group."""
    return (new.st_uid, new.st_gid) != (status.st_uid, status.st_gid)


def cut_short(real: str) -> str:
    """Return instructions, with `{shown}` for the file, if a write in place was interrupted by a crash; empty
    otherwise. A backup identical to the file is useless and removed."""
    try:
        with dir_entry(real) as at:
            return _cut_short(at)
    except OSError:  # problems with the folder are reported when the file is read
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
    """Overwrite the file itself. Until that is done, the old content is kept next to it as `.NAME.agent-backup`,
    to be restored after a crash (`cut_short`). On failure it is restored at once."""
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
    """Ensure that mtime grows with every write, even within one clock tick, so that no state of a file is mistaken
    for an earlier one."""
    now = os.fstat(fd)
    if now.st_mtime_ns <= before.st_mtime_ns:
        os.utime(fd, ns=(now.st_atime_ns, before.st_mtime_ns + 1))


def _keep_attributes(source: DirEntryFd, target: int) -> None:
    """Copy extended attributes, including access control lists, as far as the system allows."""
    if sys.platform != "linux":
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
