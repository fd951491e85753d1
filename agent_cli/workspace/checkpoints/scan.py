"""Walk a work tree for what git does not report: permissions, folders, and files not in the index. No file is
opened and no link followed."""

import os
import stat
import time
from collections.abc import Collection, Iterable, Mapping

import msgspec

from agent_cli.protocol.paths import is_in_cache

from .restore import LARGEST_BYTES

MOST_IGNORED_FILES = 2_000
MOST_IGNORED_BYTES = 50_000_000
"""Limits on ignored files saved in a checkpoint."""
_INSTALLED = frozenset({"node_modules", ".venv", "venv", ".tox", ".nox", "bower_components"})
_KIND, _PERMISSIONS = 0o170000, 0o7777
_FILE, _LINK = 0o100000, 0o120000
_FRESH_S = 2.5
_MOST_COUNTED = 200_000
_LONGEST_COUNT_S = 0.2


class UntrackedFile(msgspec.Struct, frozen=True):
    """A file or symbolic link that is not in the index."""

    path: str
    size_bytes: int
    mode: int
    """Permissions; -1 for a symbolic link."""
    inode: "Inode | None" = None
    """Identity of a file with several hard links."""


Inode = tuple[int, int]
"""Device and inode number of a file."""


class ScanResult(msgspec.Struct):
    """Result of a walk; paths are relative to the top."""

    files: dict[str, int] = {}
    """Files in the index with their permissions; -1 for a symbolic link."""
    fresh: list[str] = []
    """Files changed just now: git may miss another change within the same second."""
    folders: dict[str, int] = {}
    unknown: list[str] = []
    """Folders that were not entered, because no file in them is in the index."""
    loose: list["UntrackedFile"] = []
    """Files and symbolic links that are not in the index."""
    closed: list[str] = []
    """Folders that cannot be listed."""
    linked: dict[str, Inode] = {}
    """Checked files of `files` with several hard links."""
    special: dict[str, str] = {}
    """Pipes, sockets, devices and names that git refuses, with a name for the kind of each."""

    def name(self, names: Collection[str], skip: Collection[str]) -> None:
        """Move loose files that are in the index to `files`, and drop those in `skip`."""
        given, self.loose = self.loose, []
        for each in given:
            if each.path not in names:
                self.loose += [each] if each.path not in skip else []
            else:
                self.files[each.path] = each.mode
                self.linked.update({each.path: each.inode} if each.inode else {})

    def add(self, other: "ScanResult") -> None:
        """Add the result of a further walk; `unknown` is replaced by that of the further walk."""
        self.files |= other.files
        self.fresh += other.fresh
        self.folders.update(other.folders)
        self.loose += other.loose
        self.closed += other.closed
        self.linked |= other.linked
        self.special |= other.special
        self.unknown = other.unknown


class Ignored(msgspec.Struct):
    """Contents of an ignored folder."""

    files: list[UntrackedFile]
    folders: dict[str, int]
    size_bytes: int
    why_not: str = ""
    """Why it is excluded; empty if it may be saved."""
    special: dict[str, str] = {}


def parents_of(names: Iterable[str]) -> set[str]:
    """Return all folders that contain some paths, including the top (an empty path)."""
    found = {name.rpartition("/")[0] for name in names}
    for folder in list(found):
        while folder and (folder := folder.rpartition("/")[0]) not in found:
            found.add(folder)
    return found | {""}


def entry_covering(path: str, out: Collection[str]) -> str | None:
    """Return the entry of `out`, where folders end with a slash, that is a path or contains it; None if there is
    none."""
    at = path.find("/")
    while at >= 0:
        if path[: at + 1] in out:
            return path[: at + 1]
        at = path.find("/", at + 1)
    return path if path in out else None


def look(
    top: str, starts: Iterable[str], names: Collection[str], known: Collection[str], skip: Collection[str],
    modes: Mapping[str, int], ends_at: float,
) -> ScanResult:  # fmt: skip
    """Walk some folders and those of `known` below them. `names` are the files in the index; `skip` is not
    entered. Files in `modes` have known permissions and are not checked again.

    Raises:
        TimeoutError: it is not done by `ends_at` (monotonic clock).
    """
    found = ScanResult()
    waiting = list(starts)
    while waiting:
        folder = waiting.pop()
        if time.monotonic() > ends_at:
            raise TimeoutError
        try:
            with os.scandir(f"{top}/{folder}" if folder else top) as entries:
                _take_in(found, f"{folder}/" if folder else "", entries, names, known, skip, modes, waiting)
        except NotADirectoryError:
            continue
        except FileNotFoundError:
            found.folders.pop(folder, None)
        except OSError:
            found.closed.append(folder)
    return found


def _take_in(
    found: ScanResult, prefix: str, entries: Iterable["os.DirEntry[str]"], names: Collection[str],
    known: Collection[str], skip: Collection[str], modes: Mapping[str, int], waiting: list[str],
) -> None:  # fmt: skip
    files, loose, fresh_since = found.files, found.loose, time.time() - _FRESH_S
    for entry in entries:
        path = prefix + entry.name
        try:
            if entry.is_dir(follow_symlinks=False):
                if entry.name == ".git" or path in skip:
                    continue
                if entry.name.lower() == ".git":
                    found.special[path] = "a name that git does not save"
                    continue
                if path in known:
                    waiting.append(path)
                    found.folders[path] = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
                else:
                    found.unknown.append(path)
                continue
            if path in modes:
                files[path] = modes[path]
                continue
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        kind, mode = status.st_mode & _KIND, status.st_mode & _PERMISSIONS
        if kind not in (_FILE, _LINK):
            found.special[path] = special_kind(status)
            continue
        if path not in names:
            if path not in skip:
                loose.append(_loose(path, status))
        else:
            files[path] = mode if kind == _FILE else -1
            if inode := inode_if_linked(status):
                found.linked[path] = inode
            if status.st_ctime > fresh_since:
                found.fresh.append(path)


def absent(names: Collection[str], seen: ScanResult) -> set[str]:
    """Return the files of an index that no folder lists under exactly this name. On a case-insensitive file
    system, a lookup of the old name still succeeds after a rename that only changes case."""
    return set() if len(names) == len(seen.files) else set(names).difference(seen.files)


def measured(top: str, folder: str) -> Ignored:
    """Return the contents of an ignored folder, and whether it is small enough to save. Folders of installed
    packages and caches are never saved, and only entered to count files."""
    name = folder.rpartition("/")[2]
    if is_in_cache(folder):
        return Ignored([], {}, 0, " ")
    found = Ignored([], {}, 0)
    if name in _INSTALLED:
        found.why_not = "installed"
    count, ends_at = 0, time.monotonic() + _LONGEST_COUNT_S
    waiting = [folder]
    while waiting and count < _MOST_COUNTED and time.monotonic() < ends_at:
        at = waiting.pop()
        try:
            with os.scandir(f"{top}/{at}") as entries:
                found.folders[at] = stat.S_IMODE(os.lstat(f"{top}/{at}").st_mode)
                count += _count_in(found, at, entries, waiting)
        except OSError:
            found.why_not = found.why_not or "unreadable"
    if waiting or found.why_not:
        many = f"more than {count:,}" if waiting else f"{count:,}"
        found.why_not = f"ignored, {many} file{'s' * (count != 1)}"
        if count <= MOST_IGNORED_FILES and not waiting and found.size_bytes > MOST_IGNORED_BYTES:
            found.why_not = f"ignored, {found.size_bytes / 1e6:,.0f} MB"
    return found


def _count_in(found: Ignored, folder: str, entries: Iterable["os.DirEntry[str]"], waiting: list[str]) -> int:
    """Add one folder and return its number of files."""
    count = 0
    for entry in entries:
        path = f"{folder}/{entry.name}"
        if entry.name == ".git":
            found.why_not = "a repository"
        elif entry.is_dir(follow_symlinks=False):
            waiting.append(path)
        else:
            count += 1
            if found.why_not:
                continue
            status = entry.stat(follow_symlinks=False)
            if status.st_mode & _KIND not in (_FILE, _LINK):
                found.special[path] = special_kind(status)
            else:
                found.size_bytes += status.st_size
                found.files.append(_loose(path, status))
                if len(found.files) > MOST_IGNORED_FILES or found.size_bytes > MOST_IGNORED_BYTES:
                    found.why_not = "too large"
                    found.files = []
    return count


def _loose(path: str, status: os.stat_result) -> UntrackedFile:
    mode = stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else -1
    return UntrackedFile(path, status.st_size, mode, inode_if_linked(status))


def inode_if_linked(status: os.stat_result) -> Inode | None:
    """Return the identity of a file with several hard links; None for any other."""
    has_more = status.st_nlink > 1 and stat.S_ISREG(status.st_mode)
    return (status.st_dev, status.st_ino) if has_more else None


def special_kind(status: os.stat_result) -> str:
    """Return a name for the kind of a special file."""
    if stat.S_ISFIFO(status.st_mode):
        return "a named pipe"
    return "a socket" if stat.S_ISSOCK(status.st_mode) else "a device"


class IgnoredQuota:
    """Remaining quota of ignored files to save in a session."""

    def __init__(self) -> None:
        self._files = MOST_IGNORED_FILES
        self._bytes = MOST_IGNORED_BYTES

    def grants(self, files: int, size_bytes: int) -> bool:
        """Return True and reduce the quota if so much still fits."""
        if files > self._files or size_bytes > self._bytes:
            return False
        self._files -= files
        self._bytes -= size_bytes
        return True


def size_note(size_bytes: int) -> str:
    """Return why a file is too large to save; empty if it is not."""
    return f"larger than {LARGEST_BYTES:,} bytes" if size_bytes > LARGEST_BYTES else ""
