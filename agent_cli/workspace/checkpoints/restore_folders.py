"""Restore folders: empty ones, which exist without any file, and permissions. This takes two steps: folders are
made writable before files are restored in them, and get their final permissions afterwards. Then what root has
created gets its owner."""

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent_cli.fs.nofollow import dir_entry
from agent_cli.protocol.events import Conflict, RestoreReport
from agent_cli.protocol.messages import FileChange

from .restore import CHANGED, printable, rehearse_rmdir

if TYPE_CHECKING:
    from .metadata import FolderPairs, SnapshotMetadata

_OPEN = 0o700
_MOST_NAMED = 10
_HAS_PROC = hasattr(os, "O_PATH")
_PLACE = os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
_HELD = os.O_DIRECTORY | _PLACE


class Folders:
    """The folders of one restore. `pairs` are the expected current and the final permissions of those that differ;
    None if a folder does not exist. `target` is the state to restore."""

    def __init__(
        self, root: Path, pairs: "FolderPairs", target: "SnapshotMetadata", *, dry_run: bool = False
    ) -> None:
        self._root = os.path.realpath(root)
        self._pairs = pairs
        self._target = target
        self._dry_run = dry_run
        self._restored: list[FileChange] = []
        self._conflicts: list[Conflict] = []
        self._due: dict[str, int] = {}
        self._empty = frozenset(target.empty)
        self.keep = self._empty.union(path for path, (_, new) in pairs.items() if new is not None)
        """Folders that stay even if empty."""
        self.made: list[str] = []
        """Real paths of folders created for files; filled between the two steps."""
        self.created: list[str] = []
        """Real paths of created files and links."""
        self.emptied: set[str] = set()
        """Real paths that a real run would have emptied; used in a dry run."""

    def open(self) -> None:
        """Run the first step: change permissions as far as files need it."""
        for path, (old, new) in sorted(self._pairs.items()):
            if old is None or new is None or old == new:
                continue
            now = self._mode(path)
            if now == old:
                self._due[path] = new
                self._report(path, "modified")
                self._set(path, new | _OPEN)
            elif now is not None and now != new:
                reason = f"its permissions were {CHANGED}"
                self._conflicts.append(Conflict(f"{path}/", reason, decidable=False))

    def remove(self) -> None:
        """Remove folders that are empty after the deletions."""
        gone: set[str] = set()
        for path, (_, new) in sorted(self._pairs.items(), reverse=True):
            if new is None and path not in gone and self._is_there(path):
                with contextlib.suppress(OSError):  # somebody has put something in it: keep it
                    while path and path not in self.keep:
                        self._rmdir(path)
                        gone.add(path)
                        path = os.path.dirname(path)
        for path in sorted(gone.intersection(self._pairs)):
            self._report(path, "deleted")

    def close(self) -> RestoreReport:
        """Run the last step: create empty folders and set all permissions. Return the report on all steps."""
        for path, (old, new) in sorted(self._pairs.items()):
            if old is None and new is not None and path in self._empty and self._mode(path) is None:
                self._make(path, new)
        for real in self.made:
            path = os.path.relpath(real, self._root)
            self._due[path] = self._target.folder_mode(path)
        for path in sorted(self._due, reverse=True):
            self._set(path, self._due[path])
        return RestoreReport(tuple(self._restored), tuple(self._conflicts), self._hand_over())

    def _hand_over(self) -> tuple[str, ...]:
        """As root, give what was created to the owner of the folder that it is in: a checkpoint has no owners, and
        in a container root works for somebody else. Return a note on what stays with root, because others may not
        read it."""
        if os.geteuid() != 0:
            return ()
        kept = [real for real in sorted({*self.made, *self.created}) if not _give_to_owner(real)]
        named = (printable(os.path.relpath(real, self._root)) for real in kept[:_MOST_NAMED])
        names = ", ".join(named) + f" and {len(kept) - _MOST_NAMED} more" * (len(kept) > _MOST_NAMED)
        return (f"owners are not restored; these belong to root now: {names}",) if kept else ()

    def differing(self, pairs: "FolderPairs") -> list[str]:
        """Return the folders that do not have their final permissions."""
        return [path for path, (_, new) in sorted(pairs.items()) if self._mode(path) != new]

    def _is_there(self, path: str) -> bool:
        return self._mode(path) is not None and os.path.join(self._root, path) not in self.emptied

    def _rmdir(self, path: str) -> None:
        real = os.path.join(self._root, path)
        if self._dry_run:
            rehearse_rmdir(real, self.emptied)
            return
        with dir_entry(real) as at:
            os.rmdir(at.name, dir_fd=at.folder)

    def _make(self, path: str, mode: int) -> None:
        self._due[path] = mode
        self._report(path, "created")
        try:
            if self._dry_run:
                self._check_free(path)
                return
            with dir_entry(os.path.join(self._root, path, "x"), self.made):
                pass
        except OSError as error:
            del self._due[path]
            self._restored.pop()
            self._conflicts.append(Conflict(f"{path}/", error.strerror or str(error), decidable=False))

    def _check_free(self, path: str) -> None:
        """Rehearse the creation of a folder.

        Raises:
            OSError: a file or link is in its place, or on the way.
        """
        for folder in (*map(str, Path(path).parents[-2::-1]), path):
            real = os.path.join(self._root, folder)
            if os.path.lexists(real) and real not in self.emptied and self._mode(folder) is None:
                code = errno.ELOOP if os.path.islink(real) else errno.ENOTDIR
                raise OSError(code, os.strerror(code))

    def _report(self, path: str, kind: Literal["created", "modified", "deleted"]) -> None:
        self._restored.append(FileChange(f"{path}/", kind))

    def _mode(self, path: str) -> int | None:
        """Return the permissions of a folder; None if there is none."""
        try:
            with dir_entry(os.path.join(self._root, path)) as at:
                status = at.status()
        except OSError:
            return None
        return stat.S_IMODE(status.st_mode) if stat.S_ISDIR(status.st_mode) else None

    def _set(self, path: str, mode: int) -> None:
        if self._dry_run:
            return
        with contextlib.suppress(OSError), dir_entry(os.path.join(self._root, path)) as at:
            descriptor = os.open(at.name, _HELD, dir_fd=at.folder)
            try:
                # Through the descriptor, because a folder to be changed may not be readable.
                os.chmod(f"/proc/self/fd/{descriptor}" if _HAS_PROC else descriptor, mode)
            finally:
                os.close(descriptor)


def _give_to_owner(real: str) -> bool:
    """Give a new file or folder to the owner of its folder, unless others may not read it. Return False if it
    stays with root, although the folder is somebody else's. Another file may have taken its place meanwhile."""
    with contextlib.suppress(OSError), dir_entry(real) as at:
        around, new = os.fstat(at.folder), at.status()
        owner = around.st_uid, around.st_gid
        if new.st_uid != 0 or around.st_uid == 0 or stat.S_ISLNK(new.st_mode):
            return True
        descriptor = os.open(at.name, _PLACE, dir_fd=at.folder)
        try:
            now = os.fstat(descriptor)
            is_one = stat.S_ISDIR(now.st_mode) or (stat.S_ISREG(now.st_mode) and now.st_nlink == 1)
            if is_one and now.st_uid == 0 and now.st_mode & stat.S_IROTH and _HAS_PROC:
                os.chown(f"/proc/self/fd/{descriptor}", *owner)
                os.chmod(f"/proc/self/fd/{descriptor}", stat.S_IMODE(now.st_mode))  # a new owner clears some bits
                return True
        finally:
            os.close(descriptor)
    return False
