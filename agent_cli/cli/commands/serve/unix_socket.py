"""A Unix socket that only its owner can reach, and that exactly one process serves."""

import contextlib
import errno
import os
import secrets
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from agent_cli.bootstrap.options import UsageError
from agent_cli.fs.files import wait_for_lock

_LONGEST = 107 if sys.platform == "linux" else 103
"""Maximum path length in bytes that the kernel accepts."""
_BACKLOG = 128
_LOCK_S = 10.0
_LOCAL_PEERCRED = 1
"""Socket option of macOS and FreeBSD at level 0; returns a `struct xucred`."""
_XUCRED_BYTES = 76


@contextlib.contextmanager
def listening(name: str) -> Iterator[tuple[socket.socket, Path]]:
    """Listen at a path, which is removed at the end if it is still the same socket; yield the socket and the
    absolute path.

    Raises:
        UsageError: the path cannot be used, or another process serves there.
    """
    path = Path(os.path.abspath(name))
    draft = path.parent / f".{secrets.token_hex(4)}"
    if max(len(os.fsencode(each)) for each in (path, draft)) > _LONGEST:
        raise UsageError(f"--socket {path}: {len(os.fsencode(path))} bytes are too long for a unix socket; "
                         f"it takes {_LONGEST}")  # fmt: skip
    _check_folders(path.parent)
    try:
        with _locked(path.parent):
            _check_free(path)
            bound = _bound(draft)
            draft.rename(path)  # a visible socket accepts connections at once; a stale one is replaced
            identity = _identity(path)
    except (OSError, TimeoutError) as error:
        raise UsageError(f"--socket {path}: {error.strerror or error}") from error
    try:
        yield bound, path
    finally:
        with contextlib.suppress(OSError, TimeoutError), _locked(path.parent):
            if _identity(path) == identity:
                path.unlink()
        bound.close()


def refusal(connection: socket.socket) -> str:
    """Return why a peer is refused; empty if it is accepted. Only processes of this user are accepted, but no
    descendant of this process: a command of a session could otherwise answer for the user."""
    try:
        uid, pid = _peer(connection)
    except OSError as error:
        return f"its owner cannot be determined: {error.strerror}"
    if uid != os.geteuid():
        return "it is another user's"
    if _descends(pid, os.getpid()):
        return "it is a command run by a session"
    return ""


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Return the user id and process id of the peer; process id 0 if it is not visible from here."""
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        return int(uid), int(pid)
    _, uid = struct.unpack_from("=II", connection.getsockopt(0, _LOCAL_PEERCRED, _XUCRED_BYTES))
    return int(uid), 0


def _descends(pid: int, ancestor: int) -> bool:
    """Return True if a process descends from another one, or is gone, so that this is unknown."""
    while pid > 1 and pid != ancestor:
        try:
            told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return True
        pid = int(told.rpartition(")")[2].split()[1])
    return pid == ancestor


def _check_folders(folder: Path) -> None:
    """Check that nobody else can replace the socket, in its folder or through a folder above it."""
    try:
        real = folder.resolve(strict=True)
        found = [(each, each.stat()) for each in (real, *real.parents)]
    except OSError as error:
        raise UsageError(f"--socket: {folder}: {error.strerror}; make the folder first") from error
    for each, seen in found:
        if not stat.S_ISDIR(seen.st_mode):
            raise UsageError(f"--socket: {each} is not a folder")
        if seen.st_uid not in (0, os.geteuid()):
            raise UsageError(f"--socket: {each} belongs to another user; choose a folder of your own")
        if seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not seen.st_mode & stat.S_ISVTX:
            raise UsageError(f"--socket: others can write to {each}; `chmod go-w` it, or choose another folder")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, so that of two processes starting at once the second sees the first one's
    socket."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        wait_for_lock(descriptor, _LOCK_S)
        yield
    finally:
        os.close(descriptor)


def _check_free(path: Path) -> None:
    """Check that a path is free or has a socket that nobody serves any more."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise UsageError(f"--socket {path}: a file is in its place, and is left alone; choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        code = probe.connect_ex(os.fsencode(path))
    if code not in (errno.ECONNREFUSED, errno.ENOENT):  # EAGAIN too: its queue is full
        raise UsageError(f"--socket {path}: another process serves there; end it, or choose another path")


def _bound(path: Path) -> socket.socket:
    """Return a listening socket that was never accessible to others: the umask sets its mode on creation."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        bound.bind(os.fsencode(path))
        bound.listen(_BACKLOG)
    except BaseException:
        bound.close()
        raise
    finally:
        os.umask(mask)
    bound.setblocking(False)
    return bound


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
