"""Compare two checkpoints: files and folders that differ, in the workspace and its nested repositories. Paths that
either checkpoint does not contain are in neither list, since their changes are unknown."""

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from agent_cli.protocol.events import Conflict

from .git import PrivateGit
from .metadata import FolderPairs, Pairs, SnapshotMetadata, folder_differences
from .restore import NESTED, Entry
from .scan import parents_of

_NO_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_DIFF = ("diff-tree", "-r", "-t", "-z", "--no-renames", "--raw", "--no-abbrev")
_TREE = "040000"
_MOST_NAMED = 500
_BATCH_BYTES = 64_000_000


class Comparison:
    """Comparison of checkpoint `left` with `right`; `was` and `becomes` are their metadata."""

    def __init__(
        self, git: PrivateGit, left: str, right: str, was: SnapshotMetadata, becomes: SnapshotMetadata
    ) -> None:
        self._git = git
        self._ends = (left, right)
        self._was = was
        self._becomes = becomes
        self._raw: list[tuple[str, list[bytes]]] | None = None
        """Path prefix and output of `git diff-tree --raw`, by tree."""
        self._files: Pairs | None = None
        self._trees_found: dict[str, tuple[bool, bool]] = {}
        """Folders whose contents differ → whether there are files in them, before and after."""

    async def files(self) -> Pairs:
        """Return path → state before and after, for all files that differ."""
        if self._files is None:
            found: Pairs = {}
            if self._raw is None:
                self._raw = [(prefix, await self._fields(*ends)) for prefix, *ends in self._trees()]
            for prefix, fields in self._raw:
                self._read_raw(fields, prefix, found)
            await self._add_modes(found)
            self._add_heads(found)
            self._files = {
                path: pair for path, pair in found.items() if pair[0] != pair[1] and self._is_held(path)
            }
        return self._files

    async def as_since(self, top: Path, until_s: float) -> tuple[str, ...]:
        """Return the files that differ and have not changed since a moment (seconds since the epoch)."""
        found = []
        for path, (_, new) in (await self.files()).items():
            with contextlib.suppress(OSError):
                # ctime, because unlike mtime it cannot be set back.
                if new.blob and os.lstat(top / path).st_ctime < until_s:
                    found.append(path)
        return tuple(found)

    async def folders(self) -> FolderPairs:
        """Return path → permissions before and after, for folders that do not merely come and go with their
        files."""
        return folder_differences(self._was, self._becomes, await self.files(), self._trees_found)

    async def line_counts(self) -> dict[str, tuple[int, int]]:
        """Return path → lines added and removed. The files are then known too: both are in one output of git, the
        raw lines first."""
        counts: dict[str, tuple[int, int]] = {}
        self._raw = []
        for prefix, *ends in self._trees():
            fields = await self._fields(*ends, "--numstat", "--text")
            end = next((at for at in range(0, len(fields), 2) if not fields[at].startswith(b":")), len(fields))
            self._raw.append((prefix, fields[:end]))
            for item in fields[end:]:
                added, removed, path = item.split(b"\t", 2)
                counts[prefix + os.fsdecode(path)] = (_number(added), _number(removed))
        return counts

    async def _fields(self, left: str, right: str, *options: str) -> list[bytes]:
        """Return the fields that `git diff-tree` prints for two trees."""
        return (await self._git(*_DIFF, *options, left, right)).split(b"\0")[:-1]

    async def diff(self) -> str:
        """Return a unified diff in git's form; a renamed file is shown as such."""
        texts = []
        for prefix, left, right in self._trees():
            names = (f"--src-prefix=a/{prefix}", f"--dst-prefix=b/{prefix}")
            texts.append(await self._git("diff-tree", "-r", "-p", "--find-renames", *names, left, right))
        return b"".join(texts).decode("utf-8", "replace")

    @property
    def users_git(self) -> tuple[dict[str, str], dict[str, str]]:
        """State of the user's own git, before and after."""
        return self._was.git, self._becomes.git

    @property
    def own(self) -> tuple[str, ...]:
        """Files that the turn is known to have changed, in spite of a crash."""
        return self._was.own + self._becomes.own

    def not_held(self, shown: Callable[[str], str]) -> Iterator[Conflict]:
        """Yield conflicts for paths not contained in both checkpoints, as far as their changes are known to
        matter."""
        was, becomes = self._was.out, self._becomes.out
        one, two = self._was.stamps, self._becomes.stamps
        changed = {path for path in one.keys() & two.keys() if one[path] != two[path]}
        for path in sorted((was.keys() ^ becomes.keys()) | changed):
            if why := was.get(path) or becomes.get(path):
                name = f"{shown(path.rstrip('/'))}/" if path.endswith("/") else shown(path)
                yield Conflict(name, f"not covered by undo: {why}", decidable=False)
        was, becomes = self._was.special, self._becomes.special
        for path in sorted(was.keys() | becomes.keys()):
            if was.get(path) != becomes.get(path) and not (self._was.is_out(path) or self._becomes.is_out(path)):
                why = becomes.get(path) or was[path]
                yield Conflict(shown(path), f"not covered by undo: {why}", decidable=False)

    def _trees(self) -> Iterator[tuple[str, str, str]]:
        """Yield (path prefix, tree before, tree after) of everything that differs."""
        if self._ends[0] != self._ends[1]:
            yield "", *self._ends
        for path in sorted(self._was.nested.keys() | self._becomes.nested.keys()):
            ends = [
                kept.nested[path].tree if path in kept.nested else _NO_TREE for kept in (self._was, self._becomes)
            ]
            if all(ends) and ends[0] != ends[1]:
                yield f"{path}/", ends[0], ends[1]

    def _read_raw(self, fields: Sequence[bytes], prefix: str, found: Pairs) -> None:
        for meta, name in zip(fields[0::2], fields[1::2], strict=True):
            path = prefix + os.fsdecode(name)
            old_kind, new_kind, old_blob, new_blob, _ = meta.decode().lstrip(":").split(" ")
            if _TREE in (old_kind, new_kind):
                self._trees_found[path] = (old_kind == _TREE, new_kind == _TREE)
                continue
            old, new = entry(old_kind, old_blob, path, self._was), entry(new_kind, new_blob, path, self._becomes)
            if path in found:  # a folder became a nested repository, or the reverse
                old = found[path][0] if found[path][0].blob else old
                new = found[path][1] if found[path][1].blob else new
            found[path] = (old, new)

    async def _add_modes(self, found: Pairs) -> None:
        """Add files that differ only in permissions not stored by git."""
        before, after = self._was.modes, self._becomes.modes
        paths = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
        alone = [path for path in paths if path not in found]
        for path, now in (await entries(self._git, self._ends[1], self._becomes, alone)).items():
            mode = before.get(path, self._was.usual.of(now.kind))
            found[path] = (Entry(now.blob, now.kind, mode), now)

    def _add_heads(self, found: Pairs) -> None:
        """Add nested repositories that appeared, disappeared or have another commit checked out."""
        was, becomes = self._was.nested, self._becomes.nested
        for path in was.keys() | becomes.keys():
            old, new = (
                Entry(kept[path].head, NESTED) if path in kept else found[path][end] if path in found else Entry()
                for end, kept in enumerate((was, becomes))
            )
            if old != new:
                found[path] = (old, new)

    def _is_held(self, path: str) -> bool:
        """Return True if both checkpoints contain a path, or know that nothing is there."""
        if path in self._was.covered and path in self._becomes.covered:
            return True
        if path in self._was.nested or path in self._becomes.nested:
            return True
        return self._was.is_out(path) is None and self._becomes.is_out(path) is None


def _number(text: bytes) -> int:
    return int(text) if text.isdigit() else 0  # a dash for what is no text, such as another repository


class Touched:
    """Limits moves to paths that occur in some comparisons; without any, there is no limit."""

    def __init__(self, comparisons: Sequence[Comparison]) -> None:
        self._comparisons = comparisons

    async def files(self, found: Pairs) -> Pairs:
        """Return the files that also occur in one of the comparisons."""
        if not self._comparisons:
            return found
        touched = {path for each in self._comparisons for path in await each.files()}
        return {path: pair for path, pair in found.items() if path in touched}

    async def folders(self, found: FolderPairs) -> FolderPairs:
        """Return the folders that also occur in one of the comparisons, or contain files that do."""
        if not self._comparisons:
            return found
        touched = {path for each in self._comparisons for path in await each.folders()}
        for each in self._comparisons:
            touched |= parents_of(await each.files())
        return {path: pair for path, pair in found.items() if path in touched}


async def entries(
    git: PrivateGit, checkpoint: str, kept: SnapshotMetadata, paths: Collection[str]
) -> dict[str, Entry]:
    """Return the states of paths in a checkpoint; paths that it does not contain are omitted."""
    found: dict[str, Entry] = {}
    trees = {"": checkpoint} | {f"{path}/": each.tree for path, each in kept.nested.items() if each.tree}
    below: dict[str, list[str]] = {}
    for path in paths:
        below.setdefault(max((prefix for prefix in trees if path.startswith(prefix)), key=len), []).append(path)
    for prefix, some in below.items():
        for at in range(0, len(some), _MOST_NAMED):
            names = [path[len(prefix) :] for path in some[at : at + _MOST_NAMED]]
            raw = await git("ls-tree", "-z", trees[prefix], "--", *names)
            for line in raw.split(b"\0"):
                meta, _, name = line.partition(b"\t")
                if name:
                    kind, what, blob = meta.decode().split(" ")
                    path = prefix + os.fsdecode(name)
                    if what == "blob":
                        found[path] = entry(kind, blob, path, kept)
    return found


def entry(kind: str, blob: str, path: str, kept: SnapshotMetadata) -> Entry:
    """Return the entry for a path from git's data and the metadata."""
    if kind == "000000":
        return Entry()
    if kind not in ("100644", "100755"):
        return Entry(blob, kind)
    return Entry(blob, kind, kept.modes.get(path, kept.usual.of(kind)))


async def contents(git: PrivateGit, blobs: Collection[str]) -> dict[str, bytes]:
    """Return the contents of blobs.

    Raises:
        CheckpointError: the store cannot be read.
    """
    unique = sorted({blob for blob in blobs if blob})
    if not unique:
        return {}
    raw = await git("cat-file", "--batch", input=_lines(unique))
    found: dict[str, bytes] = {}
    at = 0
    for blob in unique:
        end = raw.index(b"\n", at)
        fields = raw[at:end].split(b" ")
        if len(fields) < 3:
            at = end + 1
            continue
        size = int(fields[2])
        found[blob] = raw[end + 1 : end + 1 + size]
        at = end + 1 + size + 1
    return found


async def batches(
    git: PrivateGit, pairs: Mapping[str, tuple[Entry, Entry]]
) -> AsyncIterator[tuple[dict[str, tuple[Entry, Entry]], dict[str, bytes]]]:
    """Yield batches of paths with the contents of their second states, of bounded size to limit memory use."""
    sizes = await _sizes(git, {new.blob for _, new in pairs.values() if new.kind != NESTED})
    batch: dict[str, tuple[Entry, Entry]] = {}
    size = 0
    for path, pair in pairs.items():
        more = sizes.get(pair[1].blob, 0)
        if batch and size + more > _BATCH_BYTES:
            yield batch, await contents(git, _needed(batch))
            batch, size = {}, 0
        batch[path] = pair
        size += more
    if batch:
        yield batch, await contents(git, _needed(batch))


def _needed(pairs: Mapping[str, tuple[Entry, Entry]]) -> list[str]:
    return [new.blob for _, new in pairs.values() if new.kind != NESTED]


async def _sizes(git: PrivateGit, blobs: Collection[str]) -> dict[str, int]:
    if not blobs:
        return {}
    raw = await git("cat-file", "--batch-check=%(objectname) %(objectsize)", input=_lines(sorted(blobs)))
    fields = [line.split(" ") for line in raw.decode().splitlines()]
    return {each[0]: int(each[1]) for each in fields if len(each) == 2 and each[1].isdigit()}


def _lines(blobs: list[str]) -> bytes:
    return "".join(f"{blob}\n" for blob in blobs).encode()
