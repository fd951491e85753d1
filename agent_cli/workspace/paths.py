"""The workspace: its root, further folders added by the user, and path resolution."""

import os
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_cli.protocol.paths import is_inside, usual_form

if TYPE_CHECKING:
    from .agentignore import AgentIgnore
    from .matching_files import FolderReader

_TRIES = 50


class PathError(ValueError):
    """A path cannot be used; the message says why."""


class Resolved(msgspec.Struct, frozen=True):
    """A path as written and as resolved."""

    shown: str
    real: str
    """Absolute, with symbolic links resolved; the last component need not exist."""
    relative: str
    """Relative to the workspace root if inside it, otherwise the absolute real path."""


class Workspace:
    """The folders that the agent works in. Relative paths are based on the root.

    Raises:
        PathError: the root is not a directory.
    """

    def __init__(self, root: Path, extra: tuple[Path, ...] = ()) -> None:
        if not root.is_dir():
            raise PathError(f"{root} is not a directory")
        self.root = root.resolve()
        self.roots: tuple[Path, ...] = (self.root, *(folder.resolve() for folder in extra))
        self._held = _identity(self.root) if _identity(Path(os.curdir)) == _identity(self.root) else None
        """Device and inode of the root if it is the current folder of this process: while it is, no other folder
        can get them."""

    @property
    def is_moved(self) -> bool:
        """True if no folder, or another one, is at the path of the root now. The latter is known only where the
        root was the current folder of this process when it began."""
        now = _identity(self.root)
        return now is None or (self._held is not None and now != self._held)

    @cached_property
    def folders(self) -> "FolderReader":
        """Reads the folders below the roots."""
        from .matching_files import FolderReader

        return FolderReader(self.roots)

    @cached_property
    def access_lists(self) -> "AgentIgnore":
        """The `.agentignore` files of the roots."""
        from .agentignore import AgentIgnore

        return AgentIgnore(self.roots)

    def resolve(self, path: str) -> Resolved:
        """Return the real place of a path written by the model or user; `~` is expanded.

        Raises:
            PathError: it is empty, contains control characters, or is a loop of links.
        """
        if not path.strip():
            raise PathError("the path is empty")
        if any(ord(char) < 32 or ord(char) == 127 for char in path):
            raise PathError(f"the path {path!r} contains control characters")
        joined = os.path.join(self.root, os.path.expanduser(path))
        try:
            real = real_path(joined)
            if not os.path.lexists(real):
                real = real_path(_written_alike(real))
        except OSError as error:
            raise PathError(f"{path}: {error.strerror or error}") from error
        return Resolved(shown=path, real=real, relative=self.relative(real))

    def contains(self, real: str) -> bool:
        """Return True if an absolute real path is inside one of the roots."""
        return is_inside(real, map(str, self.roots))

    def relative(self, real: str) -> str:
        """Return a path for display: relative to the root if inside it, otherwise absolute."""
        prefix = f"{self.root}{os.sep}"
        if real == str(self.root):
            return "."
        return real[len(prefix) :] if real.startswith(prefix) else real


def _written_alike(path: str) -> str:
    """Return the path of the only file that is written like a missing one but for the Unicode form of its accents
    and the kind of its spaces and apostrophes; the path itself if there is none. Models write the usual form, and
    files from macOS have others: `é` in two characters, a narrow space before `PM` in names of screenshots."""
    found, names = "/", path.split("/")[1:]
    for at, name in enumerate(names):
        there = os.path.join(found, name)
        if not os.path.lexists(there) and not (there := _alike_in(found, name)):
            return os.path.join(found, *names[at:])
        found = there
    return found


def _alike_in(folder: str, name: str) -> str:
    if name.isascii() and not {" ", "'"}.intersection(name):
        return ""
    wanted = usual_form(name)
    found: list[str] = []
    with suppress(OSError):
        found = [other for other in os.listdir(folder) if usual_form(other) == wanted]
    return os.path.join(folder, found[0]) if len(found) == 1 else ""


def _identity(folder: Path) -> tuple[int, int] | None:
    """Return the device and inode of a folder; None if it is gone."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def real_path(path: str) -> str:
    """Return the path with all links resolved. Retry if somebody is replacing a folder with a link at that moment.

    Raises:
        OSError: retrying did not help.
    """
    for _ in range(_TRIES):
        with suppress(OSError):
            return os.path.realpath(path)
    return os.path.realpath(path)
