"""Delete a folder and its contents, and nothing else: no link is followed and no mount entered. Links put in place
in the meantime are not followed either, because everything is accessed through the descriptor of its folder."""

import os
import stat
import sys
from pathlib import Path

from agent_cli.fs.nofollow import open_folder

from .worktree import WorktreeError

_DEEPEST = 50
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def delete_tree(real: str) -> None:
    """Delete a folder by its real path. Read-only folders in it are made writable first.

    Raises:
        WorktreeError: something is mounted in it; nothing is deleted then.
        OSError: something cannot be deleted, or a folder on the path is a link.
    """
    if found := _mounted_below(real):
        raise WorktreeError(f"{found} is a mount; unmount it first")
    parent, name = os.path.split(real.rstrip("/"))
    with open_folder(parent) as above:
        top = _opened(above, name)
        try:
            _Deletion(top, os.fstat(top).st_dev).empty()
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=above)


class _Deletion:
    """One deletion. Deep folders are first moved up, to limit the number of open descriptors."""

    def __init__(self, top: int, device: int) -> None:
        self._top = top
        self._device = device
        self._moved: list[str] = []

    def empty(self) -> None:
        """Delete the contents of the top folder."""
        self._empty(self._top, 0)
        while self._moved:
            self._delete(self._top, self._moved.pop(), 1)

    def _empty(self, folder: int, depth: int) -> None:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for name, is_folder in found:
            if not is_folder:
                os.unlink(name, dir_fd=folder)
            elif depth == _DEEPEST:
                up = f".agent-moved-{os.urandom(12).hex()}"
                os.rename(name, up, src_dir_fd=folder, dst_dir_fd=self._top)
                self._moved.append(up)
            else:
                self._delete(folder, name, depth + 1)

    def _delete(self, above: int, name: str, depth: int) -> None:
        folder = _opened(above, name)
        try:
            if os.fstat(folder).st_dev != self._device:
                raise WorktreeError(f"{name} is on another file system, so it is left alone")
            self._empty(folder, depth)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=above)


def _opened(above: int, name: str) -> int:
    """Open a folder, making it readable and writable for its owner. A link of that name is not followed."""
    status = os.stat(name, dir_fd=above, follow_symlinks=False)
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISDIR(status.st_mode) or mode & 0o700 == 0o700:
        return os.open(name, _FOLDER, dir_fd=above)
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, mode | 0o700, dir_fd=above, follow_symlinks=False)
    elif sys.platform == "linux":
        held = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        try:
            os.chmod(f"/proc/self/fd/{held}", mode | 0o700)
        finally:
            os.close(held)
    return os.open(name, _FOLDER, dir_fd=above)


def _mounted_below(real: str) -> str:
    """Return a mount point in a folder; empty if there is none, or the system does not tell."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().split(b"\n")
    except OSError:
        return ""
    points = (os.fsdecode(line.split()[4]) for line in lines if len(line.split()) > 4)
    unescaped = (point.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\") for point in points)
    return next((point for point in unescaped if point == real or point.startswith(f"{real}/")), "")
