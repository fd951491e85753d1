"""Two checkpoints side by side: the files and folders that differ, the workspace's own and those of the
repositories nested in it. What one of the two does not hold is in neither list: nobody knows what became of it."""

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from agent_cli.protocol.events import Conflict

from .git import PrivateGit
from .metadata import FolderPairs, Pairs, SnapshotMetadata, folder_differences
from .restore import NESTED, Entry
from .scan import parents_of

_NO_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_DIFF = ("diff-tree", "-r", "-z", "--no-renames")
_MOST_NAMED = 500


class Comparison:
    """From checkpoint `left` to `right`; `was` and `becomes` are what is kept beside their trees."""

    def __init__(
        self, git: PrivateGit, left: str, right: str, was: SnapshotMetadata, becomes: SnapshotMetadata
    ) -> None:
        self._git = git
        self._ends = (left, right)
        self._was = was
        self._becomes = becomes
        self._files: Pairs | None = None

    async def files(self) -> Pairs:
        """Path → state before and after, of all files that differ."""
        if self._files is None:
            found: Pairs = {}
            for prefix, left, right in self._trees():
                raw = await self._git(*_DIFF, "--raw", "--no-abbrev", left, right)
                self._read_raw(raw, prefix, found)
            await self._add_modes(found)
            self._add_heads(found)
            self._files = {
                path: pair for path, pair in found.items() if pair[0] != pair[1] and self._is_held(path)
            }
        return self._files

    async def as_since(self, top: Path, until_s: float) -> tuple[str, ...]:
        """Files that differ and have stayed as they are since a moment: seconds since the epoch."""
        found = []
        for path, (_, new) in (await self.files()).items():
            with contextlib.suppress(OSError):
                # The time of the last change of anything; unlike that of the content nobody can set it back.
                if new.blob and os.lstat(top / path).st_ctime < until_s:
                    found.append(path)
        return tuple(found)

    async def folders(self) -> FolderPairs:
        """Return the same of folders that do not just come and go with their files."""
        return folder_differences(self._was, self._becomes, await self.files())

    async def line_counts(self) -> dict[str, tuple[int, int]]:
        """Path → lines added and removed."""
        counts: dict[str, tuple[int, int]] = {}
        for prefix, left, right in self._trees():
            for item in (await self._git(*_DIFF, "--numstat", "--text", left, right)).split(b"\0"):
                fields = item.split(b"\t", 2)
                if len(fields) == 3:
                    added, removed = (int(n) if n.isdigit() else 0 for n in fields[:2])
                    counts[prefix + os.fsdecode(fields[2])] = (added, removed)
        return counts

    async def diff(self) -> str:
        """As a unified diff."""
        texts = []
        for prefix, left, right in self._trees():
            names = (f"--src-prefix=a/{prefix}", f"--dst-prefix=b/{prefix}")
            texts.append(await self._git("diff-tree", "-r", "-p", "--no-renames", *names, left, right))
        return b"".join(texts).decode("utf-8", "replace")

    @property
    def users_git(self) -> tuple[dict[str, str], dict[str, str]]:
        """Where the user's own git stood, before and after."""
        return self._was.git, self._becomes.git

    @property
    def own(self) -> tuple[str, ...]:
        """Files of which it is known, in spite of a crash, that the turn has changed them."""
        return self._was.own + self._becomes.own

    def not_held(self, shown: Callable[[str], str]) -> Iterator[Conflict]:
        """Yield what came, went or stayed and is not held by both, as far as that is known to matter."""
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
        """(prefix of its paths, tree before, tree after) of everything that differs."""
        yield "", *self._ends
        for path in sorted(self._was.nested.keys() | self._becomes.nested.keys()):
            ends = [
                kept.nested[path].tree if path in kept.nested else _NO_TREE for kept in (self._was, self._becomes)
            ]
            if all(ends) and ends[0] != ends[1]:
                yield f"{path}/", ends[0], ends[1]

    def _read_raw(self, raw: bytes, prefix: str, found: Pairs) -> None:
        fields = raw.split(b"\0")
        for meta, name in zip(fields[0::2], fields[1::2], strict=False):
            path = prefix + os.fsdecode(name)
            old_kind, new_kind, old_blob, new_blob, _ = meta.decode().lstrip(":").split(" ")
            old, new = entry(old_kind, old_blob, path, self._was), entry(new_kind, new_blob, path, self._becomes)
            if path in found:  # a folder became a repository of its own, or the other way round
                old = found[path][0] if found[path][0].blob else old
                new = found[path][1] if found[path][1].blob else new
            found[path] = (old, new)

    async def _add_modes(self, found: Pairs) -> None:
        """Files of which only the permissions differ that git does not keep."""
        before, after = self._was.modes, self._becomes.modes
        paths = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
        alone = [path for path in paths if path not in found]
        for path, now in (await entries(self._git, self._ends[1], self._becomes, alone)).items():
            mode = before.get(path, self._was.usual.of(now.kind))
            found[path] = (Entry(now.blob, now.kind, mode), now)

    def _add_heads(self, found: Pairs) -> None:
        """Nested repositories that came, went or have something else checked out."""
        was, becomes = self._was.nested, self._becomes.nested
        for path in was.keys() | becomes.keys():
            old, new = (
                Entry(kept[path].head, NESTED) if path in kept else found[path][end] if path in found else Entry()
                for end, kept in enumerate((was, becomes))
            )
            if old != new:
                found[path] = (old, new)

    def _is_held(self, path: str) -> bool:
        """Return whether both checkpoints hold what is at this path, or know that nothing is."""
        if path in self._was.covered and path in self._becomes.covered:
            return True
        if path in self._was.nested or path in self._becomes.nested:
            return True
        return self._was.is_out(path) is None and self._becomes.is_out(path) is None


class Touched:
    """Bounds what moves to what some comparisons touch; without any, everything may."""

    def __init__(self, comparisons: Sequence[Comparison]) -> None:
        self._comparisons = comparisons

    async def files(self, found: Pairs) -> Pairs:
        """Return those of the files found that one of the comparisons has too."""
        if not self._comparisons:
            return found
        touched = {path for each in self._comparisons for path in await each.files()}
        return {path: pair for path, pair in found.items() if path in touched}

    async def folders(self, found: FolderPairs) -> FolderPairs:
        """Return the same of folders, those around such files included."""
        if not self._comparisons:
            return found
        touched = {path for each in self._comparisons for path in await each.folders()}
        for each in self._comparisons:
            touched |= parents_of(await each.files())
        return {path: pair for path, pair in found.items() if path in touched}


async def entries(
    git: PrivateGit, checkpoint: str, kept: SnapshotMetadata, paths: Collection[str]
) -> dict[str, Entry]:
    """Return the states of some paths in a checkpoint; what it does not hold is left out."""
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
    """From what git says of a path, and what is kept beside it."""
    if kind == "000000":
        return Entry()
    if kind not in ("100644", "100755"):
        return Entry(blob, kind)
    return Entry(blob, kind, kept.modes.get(path, kept.usual.of(kind)))
