"""The private store for the worktrees of one repository: byte-for-byte snapshots of checkouts.

git only runs on this store, with a separate index for each checkout, so no configuration, hook, filter or
attribute of the repository has an effect: a snapshot has the exact content of each file, including large files and
line endings. Nothing in the repository is written; its objects are read, so that they need not be stored twice.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from agent_cli.fs.files import SAFE_OPEN_FLAGS, make_private, read_regular, reason_of, try_lock
from agent_cli.fs.git_files import GITLINK, index_entries
from agent_cli.fs.which import RunProgram

from ..checkpoints.git import GitFailed, PrivateGit, lines_of_names, names_in
from ..checkpoints.restore import Entry
from ..checkpoints.types import CheckpointError
from ..git.ignore_guard import BadIgnoreFile, unless_held_up
from ..git.repository import GitFolder
from .worktree import WorktreeError

_TIMEOUT_S = 300.0
_LONGEST_WAIT_S = 300.0
_POLL_S = 0.02
_AT_ONCE = 2
"""Number of checkouts written at the same time; more would only wait for the disk."""
_LARGEST_INDEX = 200_000_000
_LONGEST_EXCLUDE = 1_000_000
_CONTENT_PART = 64
STORE_LOCK = "store"
"""Lock for creating and deleting the store."""


class Snapshot(NamedTuple):
    """The files of a checkout at one time."""

    tree: str
    nested: tuple[str, ...]
    """Nested repositories, and files that git refuses; they are left out."""


class SnapshotStore:
    """The store in one folder."""

    def __init__(self, folder: Path, place: GitFolder, run: RunProgram) -> None:
        self.folder = folder
        self._place = place
        self._git = PrivateGit(folder, run, (Path(place.top), folder.parent), timeout_s=_TIMEOUT_S)

    async def prepare(self) -> None:
        """Create the store if it does not exist.

        Raises:
            WorktreeError: it cannot be written.
        """
        exclude = b""
        with contextlib.suppress(OSError):
            exclude = read_regular(os.path.join(self._place.common, "info", "exclude"), _LONGEST_EXCLUDE)
        objects = os.path.join(self._place.common, "objects")
        try:
            make_private(self.folder)
            async with hold_lock(lock_of(self.folder, STORE_LOCK)):
                self._git.prepare(exclude, objects=objects if os.path.isdir(objects) else "")
        except (CheckpointError, OSError) as error:
            raise WorktreeError(f"the store of the worktrees cannot be made: {reason_of(error)}") from error

    async def snapshot(self, name: str, top: Path, users_index: Path, *, may_lack: bool = False) -> Snapshot:
        """Save all files of a checkout that are not ignored, and those that `users_index` tracks. With `may_lack`,
        files that git refuses, such as one named `git~1`, are left out.

        Raises:
            WorktreeError: a file cannot be read, or the store not written.
        """
        index = index_of(self.folder, name)
        try:
            async with hold_lock(lock_of(self.folder, f"index-{name}")):
                index.with_name(f"{index.name}.lock").unlink(missing_ok=True)  # left by a killed git
                listing = self._git("ls-files", "-z", "--others", "--exclude-standard", work=top, index=index)
                nested = [each for each in names_in(await unless_held_up(listing, top)) if each.endswith("/")]
                wanted = [":(literal).", *(f":(exclude,literal){folder}" for folder in nested)]
                add = ("add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul")
                try:
                    await self._git(*add, work=top, index=index, input=lines_of_names(wanted))
                except GitFailed:
                    if not may_lack:
                        raise
                    await self._git(
                        *add, "--ignore-errors", work=top, index=index, input=lines_of_names(wanted), accept=(1,)
                    )
                    rest = ("ls-files", "-z", "--others", "--modified", "--exclude-standard")
                    nested = names_in(await self._git(*rest, work=top, index=index))
                await self._add_tracked(top, index, users_index)
                return Snapshot((await self._git("write-tree", index=index)).decode().strip(), tuple(nested))
        except (CheckpointError, BadIgnoreFile, OSError) as error:
            raise WorktreeError(f"the files in {top} cannot be read: {reason_of(error)}") from error

    async def _add_tracked(self, top: Path, index: Path, users_index: Path) -> None:
        """Add tracked files that are ignored, and remove nested repositories that git has added."""
        staged = (await self._git("ls-files", "-z", "--stage", index=index)).split(b"\0")
        known = {line.partition(b"\t")[2]: line[:6] for line in staged if line}
        links = [path for path, mode in known.items() if int(mode, 8) == GITLINK]
        if links:
            given = b"".join(path + b"\0" for path in links)
            await self._git("update-index", "-z", "--force-remove", "--stdin", index=index, work=top, input=given)
        missing = [path for path in tracked_by(users_index) if path not in known and _is_file(top, path)]
        if missing:
            given = b"".join(path + b"\0" for path in missing)
            await self._git("update-index", "-z", "--add", "--stdin", index=index, work=top, input=given)

    async def check_out(self, name: str, tree: str, top: Path) -> None:
        """Write the files of a tree to an empty folder.

        Raises:
            WorktreeError: they cannot be written.
        """
        index = index_of(self.folder, name)
        try:
            async with hold_lock(lock_of(self.folder, f"slot-{os.urandom(1)[0] % _AT_ONCE}")):
                await self._git("read-tree", tree, index=index)
                await self._git("checkout-index", "--all", "--index", "--quiet", work=top, index=index)
        except CheckpointError as error:
            raise WorktreeError(f"the files cannot be written to {top}: {error}") from error

    async def size_bytes(self, tree: str) -> int:
        """Return the total size of the files in a tree."""
        listing = (await self._told("ls-tree", "-r", "--long", "-z", tree)).split(b"\0")
        sizes = (line.partition(b"\t")[0].split()[-1] for line in listing if line)
        return sum(int(size) for size in sizes if size.isdigit())

    async def uncommitted(self, commit: str, users_index: Path, top: Path) -> tuple[str, ...]:
        """Return the files that differ from a commit, based on the user's index."""
        if not users_index.exists():  # a clone without checked-out files
            return ()
        async with self._copied(users_index) as index:
            # As in the user's git, a file with the time and size in the index is not read.
            changed = await self._told("diff-files", "-z", "--name-only", work=top, index=index)
            staged = await self._told("diff-index", "-z", "--name-only", "--cached", commit, work=top, index=index)
            new = await self._told("ls-files", "-z", "--others", "--exclude-standard", work=top, index=index)
        return tuple(
            sorted({each for raw in (changed, staged, new) for each in names_in(raw) if each[-1:] != "/"})
        )

    @contextlib.asynccontextmanager
    async def _copied(self, users_index: Path) -> AsyncIterator[Path]:
        """Copy an index temporarily; if there is none, the copy does not exist either."""
        index = index_of(self.folder, f".users-{os.urandom(6).hex()}")
        try:
            with contextlib.suppress(FileNotFoundError):
                copy_index(users_index, index)
            yield index
        finally:
            for file in self.folder.glob(f"{index.name}*"):
                file.unlink(missing_ok=True)

    async def untracked(self, top: Path, users_index: Path, patterns: Path, *, ignored: bool) -> list[str]:
        """Return the untracked files that a file of patterns names; with `ignored`, only those git ignores."""
        common = ("ls-files", "-z", "--others", "--ignored")
        async with self._copied(users_index) as index:
            named = set(names_in(await self._told(*common, f"--exclude-from={patterns}", work=top, index=index)))
        if named and ignored:
            named.intersection_update(await self.ignored(top, users_index))
        return sorted(named)

    async def ignored(self, top: Path, users_index: Path) -> list[str]:
        """Return the untracked files that git ignores."""
        options = ("--others", "--ignored", "--exclude-standard")
        async with self._copied(users_index) as index:
            listing = self._told("ls-files", "-z", *options, work=top, index=index)
            try:
                return names_in(await unless_held_up(listing, top))
            except BadIgnoreFile as error:
                raise WorktreeError(f"the files in {top} cannot be read: {error}") from error

    async def ignored_by(self, names: Sequence[str], top: Path, users_index: Path) -> dict[str, tuple[str, str]]:
        """Return ignored file → the ignore file that covers it, relative to `top` or absolute, and its pattern."""
        async with self._copied(users_index) as index:
            given = lines_of_names(names)
            raw = await self._told("check-ignore", "-v", "-z", "--stdin", work=top, index=index, input=given)
        fields = [os.fsdecode(field) for field in raw.split(b"\0")]
        return dict(zip(fields[3::4], zip(fields[::4], fields[2::4], strict=False), strict=False))

    async def blobs_at(self, tree: str, names: Sequence[str]) -> dict[str, str]:
        """Return file → hash of its content in a tree, for those that are in it."""
        raw = await self._told("ls-tree", "-r", "-z", "--full-tree", tree)
        entries = (line.partition(b"\t") for line in raw.split(b"\0") if line)
        found = {os.fsdecode(name): about.split()[2].decode() for about, _, name in entries}
        return {name: found[name] for name in names if name in found}

    async def ignored_folders(self, top: Path, users_index: Path) -> list[str]:
        """Return the folders that git ignores as a whole."""
        options = ("--others", "--ignored", "--exclude-standard", "--directory")
        async with self._copied(users_index) as index:
            found = names_in(await self._told("ls-files", "-z", *options, work=top, index=index))
        return sorted(each.rstrip("/") for each in found if each.endswith("/"))

    async def tree_of(self, commit: str) -> str:
        """Return the tree of a commit of the repository.

        Raises:
            WorktreeError: there is no such commit.
        """
        try:
            found = await self._git("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")
        except CheckpointError as error:
            raise WorktreeError(f"{self._place.top} has no commit {commit}") from error
        return found.decode().strip()

    async def line_counts(self, old: str, new: str) -> dict[str, tuple[int, int]]:
        """Return path → number of lines added and removed; 0 for binary files."""
        raw = await self._told("diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-textconv", old, new)
        found = {}
        for name in names_in(raw):
            added, removed, path = name.split("\t", 2)
            found[path] = (int(added) if added != "-" else 0, int(removed) if removed != "-" else 0)
        return found

    async def changes(self, old: str, new: str) -> dict[str, tuple[Entry, Entry]]:
        """Return path → states before and after, for all differences between two trees."""
        raw = (await self._told("diff-tree", "-r", "-z", "--no-renames", old, new)).split(b"\0")
        found = {}
        for about, path in zip(raw[::2], raw[1::2], strict=False):
            before, after, first, second, _ = about.decode().lstrip(":").split(" ")
            found[os.fsdecode(path)] = (_entry(before, first), _entry(after, second))
        return found

    async def patch(self, old: str, new: str, paths: Iterable[str]) -> bytes:
        """Return the differences of some paths as a patch, including binary content."""
        options = ("--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
        listed = list(paths)
        parts = [listed[at : at + 500] for at in range(0, len(listed), 500)]
        return b"".join(
            [await self._told("diff-tree", "-r", "-p", *options, old, new, "--", *part) for part in parts]
        )

    async def contents(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """Return blob hash → content."""
        from ..checkpoints.compare import contents

        wanted = sorted(set(filter(None, blobs)))
        found: dict[str, bytes] = {}
        for at in range(0, len(wanted), _CONTENT_PART):
            try:
                found |= await contents(self._git, wanted[at : at + _CONTENT_PART])
            except CheckpointError as error:
                raise WorktreeError(str(error)) from error
        if missing := [blob for blob in wanted if blob not in found]:
            raise WorktreeError(f"the content {missing[0]} is missing from the store")
        return found

    async def merged(
        self, files: tuple[Path, Path, Path], labels: tuple[str, str, str], *, markers: bool
    ) -> bytes | None:
        """Merge three versions of a file: mine, base, theirs. Return None if one is binary, or if they conflict
        and conflicts are not to be marked."""
        options = [word for label in labels for word in ("-L", label)]
        try:
            accept = tuple(range(128)) if markers else (0,)
            return await self._git("merge-file", "-p", "-q", *options, *map(str, files), accept=accept)
        except CheckpointError:
            return None

    async def _told(
        self, *arguments: str, work: Path | None = None, index: Path | None = None, input: bytes = b""
    ) -> bytes:
        try:
            return await self._git(*arguments, work=work, index=index, input=input)
        except CheckpointError as error:
            raise WorktreeError(str(error)) from error


@contextlib.asynccontextmanager
async def hold_lock(file: Path) -> AsyncIterator[None]:
    """Hold a file lock. It is never taken over from a living process.

    Raises:
        WorktreeError: another process has held it for minutes.
        OSError: the file cannot be opened.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | SAFE_OPEN_FLAGS, 0o600)
    until = time.monotonic() + _LONGEST_WAIT_S
    try:
        while not try_lock(descriptor):
            if time.monotonic() > until:
                raise WorktreeError(f"another process has held {file} for too long")
            await asyncio.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def lock_of(store: Path, name: str) -> Path:
    """Return the file of a lock."""
    return store / f"{name}.lock-file"


def index_of(store: Path, name: str) -> Path:
    """Return the private index of a checkout; the main one has an empty name."""
    return store / f"files-{name}.index"


def copy_index(users_index: Path, to: Path) -> None:
    """Copy an index and its shared parts with their times, by which git knows what to read again.

    Raises:
        OSError: it cannot be read.
    """
    import shutil

    shutil.copy2(users_index, to, follow_symlinks=False)
    for shared in users_index.parent.glob("sharedindex.*"):
        shutil.copy2(shared, to.parent / shared.name, follow_symlinks=False)


def tracked_by(users_index: Path) -> list[bytes]:
    """Return the files that an index tracks; none if it cannot be read."""
    try:
        return [
            each.path for each in index_entries(read_regular(users_index, _LARGEST_INDEX)) if each.mode != GITLINK
        ]
    except (OSError, ValueError):
        return []


def _is_file(top: Path, path: bytes) -> bool:
    """Return True if a file or link is at a path, with no link in its parent folders."""
    whole = os.path.join(os.fsencode(os.path.realpath(top)), path)
    folder = os.path.dirname(whole)
    return (
        os.path.realpath(folder) == folder
        and os.path.lexists(whole)
        and (os.path.islink(whole) or os.path.isfile(whole))
    )


def _entry(kind: str, blob: str) -> Entry:
    return Entry() if int(kind, 8) == 0 else Entry(blob, kind)
