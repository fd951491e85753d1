"""Access control for a workspace: `.agentignore` files, in the root and in any folder below, list files that the
agent may not read, write or show. Syntax and rules are those of `.gitignore`: a later line overrides an earlier
one, a deeper file those above it, `!` re-includes, and nothing below a closed folder can be re-included. Unlike
ignore files for searching, these grant or deny access, so any error in one closes everything below its folder, and
a command that changes one opens nothing by it."""

import os
import stat
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from agent_cli.fs.files import read_regular
from agent_cli.protocol.paths import usual_form

from .folder_view import current_view
from .git.gitignore import Pattern, deciding, parse

NAME = ".agentignore"
_MAX_BYTES = 100_000
_MAX_CACHED = 20_000
_MAX_DEPTH = 256


class _List(msgspec.Struct, frozen=True):
    """A parsed access list."""

    path: str
    stamp: tuple[int, ...]
    patterns: tuple[Pattern, ...] | None
    """None for a file that closes everything."""
    problem: str = ""
    """What is wrong with the file, such as ` (line 3 is not a pattern)`."""


class _Command(Protocol):
    @property
    def is_alive(self) -> bool:
        """True as long as a process of the command may be alive."""


class AgentIgnore:
    """The access lists of a workspace. Files are read when a path below them is checked, and again when they
    change. No tree is walked."""

    def __init__(self, roots: Iterable[str | os.PathLike[str]]) -> None:
        """`roots` are real paths; nothing outside them is closed."""
        self._roots = sorted({os.fspath(root).rstrip(os.sep) for root in roots}, key=len)
        self._lists: dict[str, _List | None] = {}
        self._before: dict[str, _List] = {}
        """Folder → list before the commands that may have changed some."""
        self._is_held = False
        """True if what `_before` closes stays closed."""
        self._latest: dict[str, _List] = {}
        """The same when last looked at."""
        self._changed: set[str] = set()
        """Folders whose lists a command has made, changed or removed."""
        self._starting = 0
        self._running: list[_Command] = []

    def verdict(self, real: str) -> str | None:
        """Return the `FILE:LINE` that closes a real path, which need not exist; None if it is open."""
        found = self._verdict(real, self._list)
        if found is None and self._is_held:
            return self._verdict(real, self._before.get)
        return found

    def settle(self, folders: Callable[[], Iterable[str]]) -> None:
        """Take the lists that are there before a command as the user's. What changed while a command was running
        counts only as far as it closes more. `folders` finds those with a list."""
        self._running = [command for command in self._running if command.is_alive]
        if self._running or self._starting:
            return
        self._changed -= self._differing(folders())
        kept = {folder: self._before[folder] for folder in self._changed if folder in self._before}
        self._before = {
            folder: each for folder, each in self._latest.items() if folder not in self._changed
        } | kept

    def begin(self) -> None:
        """Keep closed what the lists close at present, from the start of a command that may change them."""
        self._starting += 1
        self._is_held = True

    def started(self, command: "_Command | None") -> None:
        """Record the started command, None if the start failed. Ends a `begin`."""
        self._starting -= 1
        if command is not None:
            self._running.append(command)

    def look(self, folders: Callable[[], Iterable[str]]) -> tuple[str, ...]:
        """Return the lists that commands have made, changed or removed since the last call. `folders` finds those
        with a list; it is called only if a command has run."""
        if not self._running:
            return ()
        running = [command for command in self._running if command.is_alive]  # first: one may end meanwhile
        changed = self._differing(folders())
        self._changed |= changed
        self._running = running
        self._is_held = bool(self._changed or running or self._starting)
        return tuple(sorted(f"{folder}{os.sep}{NAME}" for folder in changed))

    def _differing(self, folders: Iterable[str]) -> set[str]:
        """Look at the lists; return the folders in which they differ from the last time."""
        before, known = self._latest, {*folders, *self._latest}
        self._latest = {folder: found for folder in known if (found := self._current_list(folder))}
        return {folder for folder in known if _rules(before, folder) != _rules(self._latest, folder)}

    def _verdict(self, real: str, list_of: Callable[[str], _List | None]) -> str | None:
        root = next((root for root in self._roots if real.startswith(f"{root}{os.sep}")), None)
        if root is None:
            return None
        names = real[len(root) + 1 :].rstrip(os.sep).split(os.sep)
        usual = names if real.isascii() else [usual_form(name) for name in names]
        lists: list[tuple[_List, int]] = []
        folder = root
        for depth, name in enumerate(names):
            if found := list_of(folder):
                if found.patterns is None:
                    return f"{found.path}{found.problem}"
                if len(names) > _MAX_DEPTH:
                    return f"{found.path} (the path has more than {_MAX_DEPTH} folders)"
                lists.insert(0, (found, depth))
            folder = f"{folder}{os.sep}{name}"
            for form in (names, usual) if lists else ():
                if place := _decided(lists, form[: depth + 1], folder, depth + 1 < len(names)):
                    return place
        return None

    def list_of(self, folder: str) -> str | None:
        """Return the path of a valid list in exactly this folder, if there is one."""
        found = self._list(folder.rstrip(os.sep))
        return found.path if found and found.patterns is not None else None

    def _list(self, folder: str) -> _List | None:
        if (view := current_view()) is None:
            return self._current_list(folder)
        return view.answer((NAME, folder), lambda: self._current_list(folder))

    def _current_list(self, folder: str) -> _List | None:
        path = f"{folder}{os.sep}{NAME}"
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            # The folder itself may be gone or have never existed; then there is nothing to protect.
            self._lists.pop(folder, None)
            return None
        except OSError as error:
            return _List(path, (), None, f" (cannot be read: {error.strerror or error})")
        stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        known = self._lists.get(folder)
        if known is None or known.stamp != stamp:
            if len(self._lists) >= _MAX_CACHED:
                self._lists.clear()
            known = self._lists[folder] = _loaded(path, status.st_mode, stamp)
        return known


def _rules(lists: dict[str, _List], folder: str) -> tuple[tuple[Pattern, ...] | None, str] | None:
    found = lists.get(folder)
    return (found.patterns, found.problem) if found else None


def _decided(lists: list[tuple[_List, int]], names: list[str], real: str, below: bool) -> str | None:
    """Return the line that closes a path; the nearest list with a matching pattern decides."""
    is_folder = below or os.path.isdir(real)
    for each, depth in lists:
        if each.patterns is None:
            continue
        if found := deciding(each.patterns, names[depth:], is_folder):
            return None if found.opens else f"{each.path}:{found.line}"
    return None


def _loaded(path: str, mode: int, stamp: tuple[int, ...]) -> _List:
    if not stat.S_ISREG(mode):
        return _List(path, stamp, None, " (not a regular file)")
    try:
        data = read_regular(path, _MAX_BYTES + 1, follow=True)
        if len(data) > _MAX_BYTES:
            return _List(path, stamp, None, " (larger than 100 KB)")
        return _List(path, stamp, parse(data.decode("utf-8-sig"), usual_form))
    except OSError as error:
        return _List(path, stamp, None, f" (cannot be read: {error.strerror or error})")
    except UnicodeDecodeError:
        return _List(path, stamp, None, " (not UTF-8)")
    except ValueError as error:
        return _List(path, stamp, None, f" ({error})")
