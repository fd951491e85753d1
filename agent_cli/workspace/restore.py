"""Bringing files back: what a path was, whether it is still so, and putting another state in its place.
Shared by both kinds of checkpoints; a path that somebody else has changed since is never overwritten."""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from ..protocol.events import Conflict, RestoreReport
from ..protocol.messages import FileChange
from .anchored import Spot, spot
from .small_files import regular_bytes

LINK = "120000"
NESTED = "160000"
LARGEST_BYTES = 100_000_000
"""A larger file is in no checkpoint."""
_CHANGED = "changed since by somebody else"
_FILES = ("100644", "100755")


class Entry(msgspec.Struct, frozen=True):
    """One path in a checkpoint. An empty `blob` means that it did not exist."""

    blob: str = ""
    """Hash of the content, or of a link's target, as git makes it."""
    kind: str = ""
    """git's mode: 100644, 100755, 120000 (link) or 160000 (nested repository)."""
    mode: int = 0


def blob_hash(data: bytes) -> str:
    """git's name for a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def printable(path: str) -> str:
    """A path for display; bytes that are not UTF-8 are replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def kind_of_change(old: Entry, new: Entry) -> Literal["created", "modified", "deleted"]:
    """What happened to a path."""
    return "created" if not old.blob else "deleted" if not new.blob else "modified"


def restore(
    root: Path,
    differences: Mapping[str, tuple[Entry, Entry]],
    content: Callable[[str], bytes],
    *,
    only: Collection[str] | None = None,
    shown: Callable[[str], str] = printable,
) -> RestoreReport:
    """Turn each path that is still in its first state into its second. `content` gives the bytes of a blob,
    `shown` a path for display. With `only`, other paths (as shown) are left alone and reported. Deletions
    come first, so that a folder can take a file's place and the other way round."""
    restored: list[FileChange] = []
    conflicts: list[Conflict] = []
    for path, (old, new) in sorted(differences.items(), key=lambda item: bool(item[1][1].blob)):
        name = shown(path)
        if only is not None and name not in only:
            conflicts.append(Conflict(name, "changed around a crash; it is not known by whom"))
            continue
        try:
            reason = _restore_one(root, path, old, new, content)
        except OSError as error:
            reason = error.strerror or str(error)
        if reason is None:
            restored.append(FileChange(name, kind_of_change(old, new)))
        elif reason:
            conflicts.append(Conflict(name, reason))
    return RestoreReport(tuple(restored), tuple(conflicts))


def _restore_one(root: Path, path: str, old: Entry, new: Entry, content: Callable[[str], bytes]) -> str | None:
    """None: restored; empty: it was so already; else why it was left alone."""
    if NESTED in (old.kind, new.kind):
        return "a nested repository; its files are not covered"
    real = os.path.join(os.path.realpath(root), path)
    try:
        with spot(real) as at:
            done = _put(at, old, new, content)
    except (FileNotFoundError, NotADirectoryError):
        if old.blob or not new.blob:
            return _CHANGED if new.blob else ""
        with spot(real, []) as at:
            done = _put(at, old, new, content)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "its folder is now a link to somewhere else"
        raise
    if done is None and not new.blob:
        _prune(os.path.realpath(root), os.path.dirname(real))
    return done


def _put(at: Spot, old: Entry, new: Entry, content: Callable[[str], bytes]) -> str | None:
    """As `_restore_one`, in a folder that is held."""
    if _is_as(at, new):
        return ""
    if not _is_as(at, old):
        return _CHANGED
    if not new.blob:
        at.unlink()
        return None
    draft = at.beside(f".{os.urandom(6).hex()}.restore")
    try:
        if new.kind == LINK:
            os.symlink(os.fsdecode(content(new.blob)), draft.name, dir_fd=draft.folder)
        else:
            with os.fdopen(draft.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content(new.blob))
                os.fchmod(file.fileno(), new.mode)
        draft.rename(at.name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
    return None


def _is_as(at: Spot, entry: Entry) -> bool:
    """Whether what is there is exactly in a recorded state."""
    try:
        status = at.status()
    except FileNotFoundError:
        return not entry.blob
    if stat.S_ISLNK(status.st_mode):
        return entry.kind == LINK and blob_hash(os.fsencode(os.readlink(at.name, dir_fd=at.folder))) == entry.blob
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_BYTES:
        return False
    if entry.kind not in _FILES or stat.S_IMODE(status.st_mode) != entry.mode:
        return False
    return blob_hash(regular_bytes(at, LARGEST_BYTES)) == entry.blob


def _prune(root: str, folder: str) -> None:
    """Remove folders that have become empty, up to the root."""
    while folder.startswith(f"{root}{os.sep}"):
        try:
            with spot(folder) as at:
                os.rmdir(at.name, dir_fd=at.folder)
        except OSError:
            return
        folder = os.path.dirname(folder)
