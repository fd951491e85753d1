"""Repositories nested in the workspace, including submodules: each has a separate tree in the private store. No
git is run that would use their configuration. Of their git data, only the name of the checked-out commit is
read."""

import contextlib
import hashlib
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

from ..git.repository import git_folder, head_of
from .git import PrivateGit
from .index_sync import Saved, TooMuch, WorkTree
from .metadata import Nested, SnapshotMetadata

_MOST = 20
_MOST_FILES = 20_000
_MOST_BYTES = 200_000_000


class NestedTrees:
    """The nested repositories of one workspace. Their indexes are next to `index`, that of the workspace."""

    def __init__(self, git: PrivateGit, top: Path, index: Path, *, timeout_s: float) -> None:
        self.out: dict[str, str] = {}
        """Folders that are too large, ending with a slash → reason."""
        self._git = git
        self._top = top
        self._index = index
        self._timeout_s = timeout_s
        self._trees: dict[str, WorkTree] = {}
        self._commits: dict[str, str] = {}
        """Tree → a commit that refers to it, so that it is kept."""

    async def save(self, found: Iterable[str]) -> AsyncIterator[tuple[str, Saved]]:
        """Save nested repositories, and those nested in them, unless they are too large. Paths are relative to the
        top.

        Raises:
            CheckpointError: one cannot be read or written.
        """
        waiting, count = list(found), 0
        while waiting:
            path = waiting.pop(0)
            if f"{path}/" in self.out:
                continue
            if (count := count + 1) > _MOST:
                self.out[f"{path}/"] = f"a repository of its own, beyond the first {_MOST}"
                continue
            try:
                saved = await self._tree(path).save()
            except TooMuch as much:
                self.out[f"{path}/"] = f"a repository of its own, {much}"
                continue
            waiting += [f"{path}/{inner}" for inner in saved.nested]
            yield path, saved

    def forget(self) -> None:
        """Discard the indexes."""
        for tree in self._trees.values():
            tree.forget()

    def kept(self, states: Mapping[str, Saved]) -> dict[str, Nested]:
        """Return the metadata of each nested repository."""
        trees = {path: saved.tree for path, saved in states.items() if path}
        left_out = {folder.rstrip("/"): "" for folder in self.out if os.path.lexists(self._top / folder)}
        return {path: Nested(tree, _head(self._top / path)) for path, tree in sorted((trees | left_out).items())}

    async def commits(self, kept: SnapshotMetadata) -> list[str]:
        """Return a commit for each tree. As parents of a checkpoint they are kept as long.

        Raises:
            CheckpointError: one cannot be created.
        """
        trees = [each.tree for each in kept.nested.values() if each.tree]
        for tree in trees:
            if tree not in self._commits:
                self._commits[tree] = (await self._git("commit-tree", tree, input=b"nested")).decode().strip()
        return [self._commits[tree] for tree in trees]

    async def covers(self, folder: str, path: str) -> bool:
        """Return True if a file about to be written in the nested repository `folder` will be in the next
        checkpoint, and was in the last one if it existed."""
        if f"{folder}/" in self.out or folder not in self._trees:
            return False
        tree, inner = self._trees[folder], os.path.relpath(path, folder)
        return tree.holds(inner) or not await tree.ignored([inner])

    def _tree(self, path: str) -> WorkTree:
        if path not in self._trees:
            number = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
            self._trees[path] = WorkTree(
                self._git, self._top / path, self._index.with_suffix(f".nested-{number}"), ".",
                own=frozenset(), timeout_s=self._timeout_s, most=(_MOST_FILES, _MOST_BYTES),
            )  # fmt: skip
        return self._trees[path]


def _head(folder: Path) -> str:
    """Return an identifier of the checked-out commit that changes with it."""
    said = ["-"]
    with contextlib.suppress(OSError):
        if (place := git_folder(folder)) is not None:
            ref, commit = head_of(place)
            said += [f"ref: {ref}", commit] if ref else [commit]
    return hashlib.sha1("\n".join(said).encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()
