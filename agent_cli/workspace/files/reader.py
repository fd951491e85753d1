"""Read the user's regular files, with encoding, byte order mark and line endings. Paths are real paths as returned
by `paths.Workspace.resolve`, and are opened without following links (`fs.nofollow`), even if somebody puts one
there in the meantime. Messages use the name written by the user or model. `atomic_write` writes files."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agent_cli.fs.nofollow import DirEntryFd, dir_entry, open_folder

from .encoding import Codec, decode, first_fault, is_binary, kind_of

MAX_TEXT_BYTES = 50_000_000
"""Larger files are neither edited nor hashed."""
_CHUNK = 1 << 18


class FileError(Exception):
    """A file cannot be read or written; the message says why."""


class Stamp(msgspec.Struct, frozen=True):
    """Metadata that distinguishes states of a file without reading it."""

    inode: int
    size_bytes: int
    mtime_ns: int
    mode: int


class TextFile(msgspec.Struct, frozen=True):
    """A text file in memory. Line endings in `text` are those of the file."""

    text: str
    codec: Codec
    hash: str
    """`content_hash` of its bytes."""
    stamp: Stamp


def content_hash(data: bytes) -> str:
    """Return 32 hexadecimal digits that identify a content."""
    import hashlib

    return hashlib.blake2b(data, digest_size=16).hexdigest()


def open_regular(real: str, shown: str) -> tuple[int, os.stat_result]:
    """Return a descriptor for reading, to be closed by the caller, and the file's status.

    Raises:
        FileError: missing, not permitted, or not a regular file.
    """
    try:
        with dir_entry(real) as at:
            return open_at(at, shown)
    except OSError as error:
        raise FileError(explain_error(shown, error, real)) from error


def open_at(at: DirEntryFd, shown: str) -> tuple[int, os.stat_result]:
    """Open a file like `open_regular`, in a folder that is already open.

    Raises:
        OSError: missing or not permitted.
        FileError: not a regular file.
    """
    fd = at.open(os.O_RDONLY)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise FileError(f"{shown} is {_kind(status.st_mode)}, not a regular file")
    return fd, status


def chunks(fd: int, limit: int | None = None) -> Iterator[bytes]:
    """Yield the content in chunks of at most 256 KiB, up to `limit` bytes."""
    left = limit
    while left is None or left > 0:
        chunk = os.read(fd, _CHUNK if left is None else min(_CHUNK, left))
        if not chunk:
            return
        yield chunk
        left = None if left is None else left - len(chunk)


def read_bytes(real: str, shown: str, max_bytes: int = MAX_TEXT_BYTES) -> tuple[bytes, Stamp]:
    """Return the whole content and the file's state.

    Raises:
        FileError: as in `open_regular`, or larger than `max_bytes`.
    """
    fd, status = open_regular(real, shown)
    try:
        data = b"".join(chunks(fd, max_bytes + 1))
    except OSError as error:
        raise FileError(explain_error(shown, error, real)) from error
    finally:
        os.close(fd)
    if len(data) > max_bytes:
        raise FileError(f"{shown} is larger than {max_bytes / 1e6:.0f} MB")
    return data, stamp(status)


def read_text(real: str, shown: str, max_bytes: int = MAX_TEXT_BYTES) -> TextFile:
    """Return the whole file as text.

    Raises:
        FileError: as in `read_bytes`, or not text; the message says what it looks like.
    """
    data, stamp = read_bytes(real, shown, max_bytes)
    found = decode(data)
    if found is None:
        what = kind_of(data) if is_binary(data) else f"damaged text: {first_fault(data)}"
        raise FileError(f"{shown} is not a text file; it looks like {what} ({len(data)} bytes)")
    return TextFile(found[0], found[1], content_hash(data), stamp)


def stamp_of(real: str) -> Stamp | None:
    """Return the current state of whatever is at `real`; None if nothing is."""
    try:
        with dir_entry(real) as at:
            return stamp(at.status())
    except OSError:
        return None


def link_target(real: str) -> tuple[str, Stamp] | None:
    """Return the target of the symbolic link at `real`, as stored in it, and its state; None if there is no
    link."""
    try:
        with dir_entry(real) as at:
            return os.readlink(at.name, dir_fd=at.folder), stamp(at.status())
    except OSError:
        return None


def stamp(status: os.stat_result) -> Stamp:
    """Return the state contained in a status."""
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode)


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISBLK, "a block device"),
        (stat.S_ISCHR, "a character device"),
    )
    return next((name for test, name in kinds if test(mode)), "special")


def explain_error(shown: str, error: OSError, real: str) -> str:
    """Describe a system error on a file in words that suggest what to do."""
    if isinstance(error, FileNotFoundError):
        if os.path.basename(os.path.normpath(shown)) != os.path.basename(real):
            return f"{shown} is a broken symbolic link: {real} does not exist{_nearest(real)}"
        return f"{shown} does not exist{_nearest(real)}"
    if isinstance(error, NotADirectoryError | FileExistsError):
        return f"{shown}: a part of this path is a file, not a folder"
    there = stamp_of(real)
    if there is not None and not stat.S_ISREG(there.mode):
        return f"{shown} is {_kind(there.mode)}, not a regular file"
    return f"{shown}: {error.strerror or error}"


def _nearest(real: str) -> str:
    """Return a hint for a path that does not exist: similar names in its folder, or that the folder is missing."""
    folder, name = os.path.split(real)
    try:
        with open_folder(folder) as fd:
            names = sorted(os.listdir(fd))[:2000]
    except PermissionError:
        return ""
    except OSError:
        return f" (there is no folder {Path(folder).name})"
    import difflib

    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    return f"; similar names there: {', '.join(near)}" if near else ""
