"""Metadata of a checkpoint that git's tree does not store: permissions, empty folders, omitted paths, and the
trees of nested repositories. It is the commit message of the checkpoint."""

import contextlib
import json  # unlike msgspec it can hold names that are not UTF-8
import os
from collections import Counter
from collections.abc import Mapping

import msgspec

from .restore import NESTED, Entry
from .scan import Inode, entry_covering, parents_of

_MOST_STAMPS = 1_000
_MOST_LINKED = 1_000


class DefaultModes(msgspec.Struct, frozen=True, array_like=True):
    """The most common permissions of files, programs and folders in a workspace; only deviations are recorded.
    Chosen once per session, so that checkpoints can be compared by the recorded data."""

    file: int = 0o644
    program: int = 0o755
    folder: int = 0o755

    def of(self, kind: str) -> int:
        """Return the default permissions for an entry with this git mode."""
        return self.program if kind == "100755" else self.file

    def of_mode(self, mode: int) -> int:
        """Return the default permissions for a file of the same kind as one with these permissions."""
        return self.program if mode & 0o100 else self.file


class Nested(msgspec.Struct, frozen=True, array_like=True):
    """A nested repository: the tree of its files (empty if not covered), and an identifier of what is checked
    out."""

    tree: str
    head: str


class SnapshotMetadata(msgspec.Struct, frozen=True):
    """Metadata of a checkpoint. All paths, including those in nested repositories, are relative to the top of the
    work tree."""

    usual: DefaultModes = DefaultModes()
    modes: dict[str, int] = {}
    """Files with other than default permissions."""
    folders: dict[str, int] = {}
    """Folders with other than default permissions."""
    empty: tuple[str, ...] = ()
    """Folders without any file in the checkpoint."""
    out: dict[str, str] = {}
    """Omitted path → reason. A folder ends with a slash. Paths with an empty reason are not reported."""
    covered: tuple[str, ...] = ()
    """Files that are covered although `out` includes them, because a tool has written them."""
    nested: dict[str, Nested] = {}
    stamps: dict[str, int] = {}
    """Path in `out` → its mtime in ns; for a folder, the time when an entry was added or removed."""
    git: dict[str, str] = {}
    """State of the user's own git, as in `UserGitState.state`."""
    own: tuple[str, ...] = ()
    """After a crash: files that the turn has certainly changed."""
    links: tuple[tuple[str, ...], ...] = ()
    """Groups of hard links to one file. A group of one has its other links elsewhere."""
    special: dict[str, str] = {}
    """Pipes, sockets and devices, which are never saved, with a name for the kind of each."""
    has_folders: bool = True
    """False for a checkpoint of an older version without data on folders."""

    def folder_mode(self, folder: str) -> int:
        """Return the permissions of a folder that exists in the checkpoint."""
        return self.folders.get(folder, self.usual.folder)

    def is_out(self, path: str) -> str | None:
        """Return the entry of `out` that covers a path; None if the path is included."""
        return entry_covering(path, self.out)


def most_common_modes(files: Mapping[str, int], folders: Mapping[str, int]) -> DefaultModes:
    """Return the most common permissions; -1 stands for a symbolic link."""
    programs: Counter[int] = Counter()
    others: Counter[int] = Counter()
    for mode, count in Counter(files.values()).items():
        if mode >= 0:
            (programs if mode & 0o100 else others)[mode] += count

    def first(counter: Counter[int], default: int) -> int:
        return counter.most_common(1)[0][0] if counter else default

    return DefaultModes(first(others, 0o644), first(programs, 0o755), first(Counter(folders.values()), 0o755))


def group_links(linked: Mapping[str, Inode]) -> tuple[tuple[str, ...], ...]:
    """Return groups of hard links to the same file, for a limited number of paths."""
    groups: dict[Inode, list[str]] = {}
    for path in sorted(linked)[:_MOST_LINKED]:
        groups.setdefault(linked[path], []).append(path)
    return tuple(tuple(names) for names in groups.values())


def stamps_of(top: str | os.PathLike[str], out: Mapping[str, str]) -> dict[str, int]:
    """Return the mtimes in ns of omitted paths that have a reason."""
    found: dict[str, int] = {}
    for path in [path for path, why in out.items() if why][:_MOST_STAMPS]:
        with contextlib.suppress(OSError):
            found[path] = os.lstat(os.path.join(top, path.rstrip("/"))).st_mtime_ns
    return found


def encode_metadata(kept: SnapshotMetadata) -> bytes:
    """Encode metadata as a commit message."""
    return json.dumps(msgspec.to_builtins(kept)).encode()


def decode_metadata(message: bytes) -> SnapshotMetadata:
    """Decode metadata from a commit message, of this or an older version, which had only modes.

    Raises:
        ValueError: it is not such a message.
    """
    plain = json.loads(message)
    if "usual" not in plain:
        return SnapshotMetadata(modes=plain["modes"], has_folders=False)
    return msgspec.convert(plain, SnapshotMetadata)


Pairs = dict[str, tuple[Entry, Entry]]
FolderPairs = dict[str, tuple[int | None, int | None]]
"""Folder → permissions before and after; None if it does not exist."""


def folder_differences(
    left: SnapshotMetadata, right: SnapshotMetadata, files: Pairs, trees: Mapping[str, tuple[bool, bool]]
) -> FolderPairs:
    """Return the folders that differ between two checkpoints, except those that come and go with their files.
    `files` are the files that differ; `trees` are the folders whose contents differ → whether each checkpoint has
    files in them."""
    if not (left.has_folders and right.has_folders):
        return {}
    became_empty = set(left.empty) ^ set(right.empty)
    had = parents_of(path for path, (old, _) in files.items() if old.blob and old.kind != NESTED)
    has = parents_of(path for path, (_, new) in files.items() if new.blob and new.kind != NESTED)
    differing = had | has | became_empty
    ends = ((left, had.union(left.empty, left.folders)), (right, has.union(right.empty, right.folders)))

    def mode(path: str, end: int) -> int | None:
        kept, present = ends[end]
        exists = path in present or (trees[path][end] if path in trees else path not in differing)
        return kept.folder_mode(path) if exists else None

    found = {path: (mode(path, 0), mode(path, 1)) for path in became_empty.union(left.folders, right.folders)}
    differ = (path for path, (old, new) in found.items() if old != new or path in became_empty)
    return {path: found[path] for path in differ if not (left.is_out(path + "/") or right.is_out(path + "/"))}


def add_folders(more: FolderPairs, to: FolderPairs) -> None:
    """Combine a further move of folders with the earlier ones."""
    for path, (old, new) in more.items():
        first, last = to.get(path, (old, old))
        to[path] = (first, new if last == old else last)
