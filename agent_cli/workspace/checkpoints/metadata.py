"""What a checkpoint keeps beside git's tree: permissions, empty folders, what it does not hold, and the trees of
nested repositories. It is the message of the checkpoint's commit."""

import contextlib
import json  # unlike msgspec it can hold names that are not UTF-8
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from .restore import NESTED, Entry
from .scan import Inode

_MOST_STAMPS = 1_000
_MOST_LINKED = 1_000


class DefaultModes(msgspec.Struct, frozen=True):
    """Permissions that most files, programs and folders of a workspace have: only others are written down. Chosen
    once a session, so that checkpoints can be compared by what is written down."""

    file: int = 0o644
    program: int = 0o755
    folder: int = 0o755

    def of(self, kind: str) -> int:
        """Return those of an entry of this kind, as git names it."""
        return self.program if kind == "100755" else self.file

    def of_mode(self, mode: int) -> int:
        """Return those of a file of the same kind as one with these permissions."""
        return self.program if mode & 0o100 else self.file


class Nested(msgspec.Struct, frozen=True):
    """A repository in the workspace: the tree of its files (empty: they are not covered) and what is checked
    out."""

    tree: str
    head: str


class SnapshotMetadata(msgspec.Struct, frozen=True):
    """Paths are relative to the top of the work tree, those in nested repositories too."""

    usual: DefaultModes = DefaultModes()
    modes: dict[str, int] = {}
    """Files whose permissions are not the usual ones."""
    folders: dict[str, int] = {}
    """Folders of which that is so."""
    empty: tuple[str, ...] = ()
    """Folders without any file that the checkpoint holds."""
    out: dict[str, str] = {}
    """What the checkpoint does not hold → why; a folder ends with a slash. An empty reason need not be told."""
    covered: tuple[str, ...] = ()
    """What it holds by name, whatever lies in `out`: a tool has written it."""
    nested: dict[str, Nested] = {}
    stamps: dict[str, int] = {}
    """What `out` names → when it was changed itself, in ns: for a folder, when something came or went in it."""
    git: dict[str, str] = {}
    """Where the user's own git stood, as in `UsersGit.state`."""
    own: tuple[str, ...] = ()
    """Of a checkpoint taken after a crash: files that were surely changed before it, by the turn."""
    links: tuple[tuple[str, ...], ...] = ()
    """Paths that are names of one file (hard links); a single one has its other names elsewhere."""
    special: dict[str, str] = {}
    """Pipes, sockets and devices, which nothing holds, with the word for each."""
    has_folders: bool = True
    """False for a checkpoint of an older version, which says nothing of folders."""

    def is_out(self, path: str) -> str | None:
        """Return the entry of `out` that a path falls under; None when it is covered."""
        if path in self.out:
            return path
        at = path.find("/")
        while at >= 0:
            if path[: at + 1] in self.out:
                return path[: at + 1]
            at = path.find("/", at + 1)
        return None


def most_common_modes(files: Mapping[str, int], folders: Mapping[str, int]) -> DefaultModes:
    """Return the most common permissions; a link has -1."""
    programs: Counter[int] = Counter()
    others: Counter[int] = Counter()
    for mode, count in Counter(files.values()).items():
        if mode >= 0:
            (programs if mode & 0o100 else others)[mode] += count

    def first(counter: Counter[int], default: int) -> int:
        return counter.most_common(1)[0][0] if counter else default

    return DefaultModes(first(others, 0o644), first(programs, 0o755), first(Counter(folders.values()), 0o755))


def group_links(linked: Mapping[str, Inode]) -> tuple[tuple[str, ...], ...]:
    """Return the paths of each file that has several names, as far as they are not too many."""
    groups: dict[Inode, list[str]] = {}
    for path in sorted(linked)[:_MOST_LINKED]:
        groups.setdefault(linked[path], []).append(path)
    return tuple(tuple(names) for names in groups.values())


def stamps_of(top: str | os.PathLike[str], out: Mapping[str, str]) -> dict[str, int]:
    """When things that are left out were changed last, in ns; those of which nobody needs to hear excepted."""
    found: dict[str, int] = {}
    for path in [path for path, why in out.items() if why][:_MOST_STAMPS]:
        with contextlib.suppress(OSError):
            found[path] = os.lstat(os.path.join(top, path.rstrip("/"))).st_mtime_ns
    return found


def encode_metadata(kept: SnapshotMetadata) -> bytes:
    """As a commit message."""
    plain: dict[str, Any] = {
        "usual": [kept.usual.file, kept.usual.program, kept.usual.folder],
        "modes": kept.modes,
        "folders": kept.folders,
        "empty": kept.empty,
        "out": kept.out,
        "covered": kept.covered,
        "nested": {path: [each.tree, each.head] for path, each in kept.nested.items()},
        "stamps": kept.stamps,
        "git": kept.git,
        "own": kept.own,
        "links": kept.links,
        "special": kept.special,
    }
    return json.dumps(plain).encode()


def decode_metadata(message: bytes) -> SnapshotMetadata:
    """From a commit message, of this version or of an older one, which had only modes.

    Raises:
        ValueError: it is no such message.
    """
    plain = json.loads(message)
    if "usual" not in plain:
        return SnapshotMetadata(modes=plain["modes"], has_folders=False)
    return SnapshotMetadata(
        DefaultModes(*plain["usual"]),
        plain["modes"],
        plain["folders"],
        tuple(plain["empty"]),
        plain["out"],
        tuple(plain["covered"]),
        {path: Nested(*each) for path, each in plain["nested"].items()},
        plain.get("stamps", {}),
        plain.get("git", {}),
        tuple(plain.get("own", ())),
        tuple(tuple(names) for names in plain.get("links", ())),
        plain.get("special", {}),
    )


Pairs = dict[str, tuple[Entry, Entry]]
FolderPairs = dict[str, tuple[int | None, int | None]]
"""Folder → permissions before and after; None where it does not exist."""


def folder_differences(left: SnapshotMetadata, right: SnapshotMetadata, files: Pairs) -> FolderPairs:
    """Folders that are not the same in two checkpoints, beyond those that come and go with their files. `files`
    are the files that differ."""
    if not (left.has_folders and right.has_folders):
        return {}
    had = _parents(path for path, (old, _) in files.items() if old.blob and old.kind != NESTED)
    has = _parents(path for path, (_, new) in files.items() if new.blob and new.kind != NESTED)
    left_empty, right_empty = set(left.empty), set(right.empty)
    found: FolderPairs = {}
    for path in (left_empty ^ right_empty) | (
        left_empty & right_empty & (left.folders.keys() | right.folders.keys())
    ):
        old = _mode(left, path) if path in left_empty or path in had else None
        new = _mode(right, path) if path in right_empty or path in has else None
        found[path] = (old, new)
    for path in left.folders.keys() | right.folders.keys():
        if path not in found and left.folders.get(path) != right.folders.get(path):
            changed = path in had or path in has
            old = _mode(left, path) if path in left.folders or path in had or not changed else None
            new = _mode(right, path) if path in right.folders or path in has or not changed else None
            found[path] = (old, new)
    outside = [path for path in found if left.is_out(path + "/") or right.is_out(path + "/")]
    for path in outside:
        del found[path]
    return {path: pair for path, pair in found.items() if pair[0] != pair[1] or path in left_empty ^ right_empty}


def add_folders(more: FolderPairs, to: FolderPairs) -> None:
    """Add a further move of folders to the ones before it."""
    for path, (old, new) in more.items():
        first, last = to.get(path, (old, old))
        to[path] = (first, new if last == old else last)


def _mode(kept: SnapshotMetadata, folder: str) -> int:
    return kept.folders.get(folder, kept.usual.folder)


def _parents(paths: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found
