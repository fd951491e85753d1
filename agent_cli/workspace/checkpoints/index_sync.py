"""Keep the files of one work tree in a separate index: that of the workspace, or of a nested repository. git
reports what changed and what is ignored, a directory walk (`scan`) the rest, and the index is updated.

Small ignored files are saved too (up to `scan.MOST_IGNORED_FILES`): settings and secrets such as `.env` are what
users miss most after an undo. They are stored byte for byte in the user's private store.
"""

import asyncio
import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from agent_cli.fs.files import open_regular
from agent_cli.protocol.paths import is_in_cache

from ..git.ignore_guard import BadIgnoreFile, unless_held_up
from . import scan
from .git import GitFailed, PrivateGit, lines_of_names, names_in
from .types import CheckpointError

_MOST_ROUNDS = 40
_MOST_OUT = 20_000
_MANY = 1_000
_PACKED = 5_000
_CLOSED = "it cannot be read"


class TooMuch(Exception):
    """A nested repository has too many files; the message says how many."""


class Saved(msgspec.Struct, frozen=True):
    """State of a work tree. Paths are relative to its top."""

    tree: str
    files: dict[str, int]
    """Files with their permissions; -1 for a symbolic link."""
    folders: dict[str, int]
    empty: tuple[str, ...]
    out: dict[str, str]
    nested: tuple[str, ...]
    """Nested repositories, whose files are not in this tree."""
    linked: dict[str, scan.Inode] = {}
    """Files with several hard links."""
    special: dict[str, str] = {}
    """Pipes, sockets and devices, with a name for the kind of each."""


class _Listed(msgspec.Struct, frozen=True):
    """Changes since the index was written, as reported by git."""

    present: dict[str, int]
    """Path → permissions, or -1 for a symbolic link."""
    gone: list[str]
    large: dict[str, str]
    nested: tuple[str, ...]
    linked: dict[str, scan.Inode]
    special: dict[str, str]


class WorkTree:
    """One work tree. `scope` is the relevant folder in it, `.` for all. `own` are folders that are never saved,
    relative to the top, such as the store. `most` limits files and bytes added at a time; 0 for no limit."""

    def __init__(
        self, git: PrivateGit, top: Path, index: Path, scope: str, *, own: frozenset[str], timeout_s: float,
        most: tuple[int, int] = (0, 0),
    ) -> None:  # fmt: skip
        self.top = top
        self.covered: set[str] = set()
        """Ignored files that a tool is about to write."""
        self.progressed: Callable[[], None] = lambda: None
        """Called when a portion of many files is saved; it stays saved if the rest is not."""
        self._git = git
        self._index = index
        self._scope = scope
        self._own = own
        self._timeout_s = timeout_s
        self._most = most
        self._names: set[str] | None = None
        """The files in the index; None before it is read."""
        self._known: set[str] = set()
        self._tree = ""
        self._modes: dict[str, int] = {}
        """Permissions as of the last run; git reports files touched since."""
        self._linked: dict[str, scan.Inode] = {}
        """Files in `_modes` that had several hard links at the last run."""
        self._out: dict[str, str] = {}
        """Ignored folders and files that are too large; they stay excluded."""
        self._allowance = scan.IgnoredQuota()
        self._closed: set[str] = set()
        """Files that could not be read at the last run."""

    def holds(self, path: str) -> bool:
        """Return True if a file is in the index, or will be once it exists."""
        return path in self.covered or (self._names is not None and path in self._names)

    def enters(self, folder: str) -> bool:
        """Return True if files in a folder are in the index."""
        return folder in self._known

    def forget(self) -> None:
        """Discard the index; the next state is read from the files alone."""
        self._names, self._tree, self._modes = None, "", {}
        self._allowance = scan.IgnoredQuota()
        self._index.unlink(missing_ok=True)
        _unlock(self._index)

    async def save(self, adopt: Path | None = None) -> Saved:
        """Save the current state to the store. `adopt` is the index of another session to start from if there is
        none, which avoids rereading known files.

        Raises:
            CheckpointError: the state cannot be read or written.
            TooMuch: there are too many files.
            TimeoutError: it takes too long.
        """
        await self._begin(adopt)
        try:
            return await self._save()
        except BaseException:
            # git may have changed the index, after which it does not list these files again
            self._names, self._tree, self._modes, self._linked = None, "", {}, {}
            raise

    async def _save(self) -> Saved:
        listed, found = await self._list_and_look()
        names = self._names or set()
        if listed.present or listed.gone:
            names = names.union(listed.present).difference(listed.gone)
        self._let_in(listed)
        out, small = await self._look_further(found, names, listed)
        extra = small + self._admitted(found.loose, out)
        gone = listed.gone + sorted(name for name in scan.absent(names, found) if not self._is_out(name))
        closed = await self._update(listed, [each.path for each in extra], gone)
        found.files.update((each.path, each.mode) for each in extra)
        for path in closed:
            found.files.pop(path, None)
        out |= dict.fromkeys(closed, _CLOSED)
        linked = self._linked_now(listed, found, extra)
        self._modes = dict(found.files)
        for path in (*found.fresh, *listed.present, *(each.path for each in extra)):
            self._modes.pop(path, None)
        out |= listed.large
        empty = sorted(found.folders.keys() - self._known)
        special = found.special | listed.special
        return Saved(
            self._tree, found.files, found.folders, tuple(empty), out, listed.nested, linked, special
        )  # fmt: skip

    def _linked_now(
        self, listed: _Listed, found: scan.ScanResult, extra: list[scan.UntrackedFile]
    ) -> dict[str, scan.Inode]:
        """Return the files with several hard links. Adding or removing a link changes the file's time, so git
        lists the file and its status is read again. For other files, the last result applies."""
        now = {path: inode for path, inode in self._linked.items() if path in self._modes}
        for path in listed.present:
            now.pop(path, None)
        now |= found.linked | listed.linked | {each.path: each.inode for each in extra if each.inode}
        self._linked = {path: inode for path, inode in now.items() if path in found.files}
        return self._linked

    async def run(self, *arguments: str, input: bytes = b"", accept: tuple[int, ...] = (0,)) -> bytes:
        """Run git on this index and work tree.

        Raises:
            CheckpointError: it failed, or a file that it reads on its way does not end.
        """
        running = self._git(*arguments, work=self.top, index=self._index, input=input, accept=accept)
        try:
            return await unless_held_up(running, self.top / self._scope)
        except BadIgnoreFile as error:
            raise CheckpointError(str(error)) from error

    async def ignored(self, paths: list[str]) -> set[str]:
        """Return the paths that ignore files cover, tracked or not."""
        command = ("check-ignore", "--no-index", "-z", "--stdin")
        return set(names_in(await self.run(*command, input=lines_of_names(paths), accept=(0, 1))))

    async def with_file(self, checkpoint: str, path: str) -> str:
        """Return the tree of a checkpoint with one more file in its current state."""
        draft = self._index.with_name(f"{self._index.name}.draft")
        _unlock(draft)
        try:
            await self._git("read-tree", checkpoint, work=self.top, index=draft)
            await self._git(*_ADD, work=self.top, index=draft, input=lines_of_names([path]))
            return (await self._git("write-tree", work=self.top, index=draft)).decode().strip()
        finally:
            draft.unlink(missing_ok=True)

    async def _begin(self, adopt: Path | None) -> None:
        _unlock(self._index)
        if self._names is not None:
            return
        if not self._index.exists() and adopt is not None:
            from shutil import copy2

            with contextlib.suppress(OSError):  # copy2 keeps the time, by which git knows what to check again
                await asyncio.to_thread(copy2, adopt, self._index)
        await self._read_names() if self._index.exists() else self._set_names(set())

    async def _read_names(self) -> None:
        self._set_names(set(names_in(await self.run("ls-files", "-z"))))

    def _set_names(self, names: set[str], known: set[str] | None = None) -> None:
        self._names = names
        self._known = scan.parents_of(names) if known is None else known

    def _change_names(self, present: list[str], gone: list[str]) -> None:
        names = (self._names or set()).difference(gone).union(present)
        self._set_names(names, self._known_with(present, gone, names))

    def _known_with(self, present: Iterable[str], gone: list[str], names: set[str]) -> set[str]:
        """Return the folders that contain files after a change."""
        return scan.parents_of(names) if gone else self._known | scan.parents_of(present)

    async def _list(self) -> _Listed:
        """Return the differences from the index. The number of untracked files is limited by what git ignores."""
        raw = await self.run("ls-files", "-z", "--others", "--exclude-standard", "--", self._scope)
        if self._names:
            raw += await self.run("diff-files", "-z", "--name-only")
        names = dict.fromkeys(names_in(raw))
        if own := {f"{folder}/" for folder in self._own}:
            names = {name: None for name in names if not scan.entry_covering(name, own)}
        nested = tuple(name.rstrip("/") for name in names if name.endswith("/"))
        # in a thread: a slow disk must not hold up the event loop
        found, total = await asyncio.to_thread(self._sort_out, [*names, *self.covered], nested)
        if self._most[0] and (len(found.present) > self._most[0] or total > self._most[1]):
            raise TooMuch(f"{len(found.present):,} files, {total / 1e6:,.0f} MB")
        return found

    def _sort_out(self, names: list[str], nested: tuple[str, ...]) -> tuple[_Listed, int]:
        """Return the state of files by their status, and the size of those that are there."""
        present, gone, large, total = dict[str, int](), list[str](), dict[str, str](), 0
        linked, special = dict[str, scan.Inode](), dict[str, str]()
        for name in names:
            try:
                status = os.lstat(f"{self.top}/{name}")
            except OSError:
                gone.append(name)
                continue
            if stat.S_ISREG(status.st_mode) and (why := scan.size_note(status.st_size)):
                large[name] = why
            elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                present[name] = -1 if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)
                total += status.st_size
                linked.update({name: inode} if (inode := scan.inode_if_linked(status)) else {})
            elif not name.endswith("/"):
                gone.append(name)
                special.update({} if stat.S_ISDIR(status.st_mode) else {name: scan.special_kind(status)})
        gone = [name for name in gone if self._names and name in self._names]
        return _Listed(present, gone, large, nested, linked, special), total

    async def _list_and_look(self) -> tuple[_Listed, scan.ScanResult]:
        """Run git's walk and ours at the same time; ours knows only the files as of the last run."""
        start = "" if self._scope == "." else self._scope
        looking = asyncio.ensure_future(self._look([start], self._names or set(), self._known, self._skipped()))
        try:
            listed = await self._list()
        finally:
            await asyncio.wait({looking})
            failure = looking.exception()
        if failure is not None:
            raise failure
        return listed, looking.result()

    async def _look(self, starts: list[str], names: set[str], known: set[str], skip: set[str]) -> scan.ScanResult:
        ends_at = time.monotonic() + self._timeout_s
        return await asyncio.to_thread(scan.look, str(self.top), starts, names, known, skip, self._modes, ends_at)

    def _skipped(self) -> set[str]:
        return {*self._own, *(folder.rstrip("/") for folder in self._out)}

    async def _look_further(
        self, found: scan.ScanResult, names: set[str], listed: _Listed
    ) -> tuple[dict[str, str], list[scan.UntrackedFile]]:
        """Continue the walk into folders with new files, and into folders that are not ignored although git knows
        no files in them. Return what is excluded, and the files of small ignored folders."""
        top, small = str(self.top), list[scan.UntrackedFile]()
        known = self._known if names is self._names else self._known_with(listed.present, listed.gone, names)
        skip = {*self._skipped(), *listed.nested, *listed.large}
        found.files.update((path, mode) for path, mode in listed.present.items() if path in found.files)
        for path in found.files.keys() & set(listed.gone):
            del found.files[path]
        found.name(names, skip)
        for _ in range(_MOST_ROUNDS):
            within = [folder for folder in found.unknown if folder in known and folder not in skip]
            asked = [folder for folder in found.unknown if folder not in known and folder not in skip]
            if not (within or asked):
                break
            caches = {f"{folder}/.gitignore": folder for folder in asked if is_in_cache(folder)}
            ignored = await self.ignored([*asked, *caches]) if asked else set()
            ignored = {caches.get(path, path) for path in ignored}  # a cache that ignores itself, and all in it
            for folder in sorted(ignored):
                small += await self._weighed(folder, found)
            starts = within + [folder for folder in asked if folder not in ignored]
            found.folders.update((folder, _mode_of(f"{top}/{folder}")) for folder in starts)
            found.add(await self._look(starts, names, known, skip))
        deeper = found.unknown  # none, unless there were too many rounds
        out = {path: why for path, why in self._out.items() if os.path.lexists(f"{top}/{path}")}
        out |= {f"{folder}/": "it cannot be listed" for folder in found.closed}
        out |= {f"{folder}/": "it is too deep" for folder in deeper if folder not in skip}
        written = [path for path in self.covered if path in names and self._is_out(path)]
        found.files.update((path, _mode_of(f"{top}/{path}")) for path in written)
        return out, small

    def _is_out(self, path: str) -> bool:
        return scan.entry_covering(path, self._out) is not None

    def _let_in(self, listed: _Listed) -> None:
        """Stop excluding paths that are no longer ignored."""
        if self._out:
            for name in (*listed.present, *(f"{folder}/" for folder in listed.nested)):
                while name and name not in self.covered:
                    self._out.pop(name, None)
                    name = f"{folder}/" if (folder := name.rstrip("/").rpartition("/")[0]) else ""

    async def _weighed(self, folder: str, found: scan.ScanResult) -> list[scan.UntrackedFile]:
        """Return the files of an ignored folder, unless it is excluded."""
        inside = await asyncio.to_thread(scan.measured, str(self.top), folder)
        if not inside.why_not and not self._allowance.grants(len(inside.files), inside.size_bytes):
            inside.why_not = f"ignored, {len(inside.files):,} files"
        if inside.why_not:
            self._out[f"{folder}/"] = inside.why_not.strip()
            return []
        found.folders.update(inside.folders)
        found.special.update(inside.special)
        return inside.files

    def _admitted(self, loose: list[scan.UntrackedFile], out: dict[str, str]) -> list[scan.UntrackedFile]:
        """Return the ignored files to save; the others are added to `out`."""
        chosen = []
        for each in sorted(loose, key=lambda each: each.size_bytes):
            if why := scan.size_note(each.size_bytes):
                out[each.path] = why
            elif self._allowance.grants(1, each.size_bytes):
                chosen.append(each)
            elif len(self._out) < _MOST_OUT:
                out[each.path] = self._out[each.path] = "ignored, and there are too many"
        return chosen

    async def _update(self, listed: _Listed, extra: list[str], gone: list[str]) -> set[str]:
        """Bring the index up to date. `extra` are ignored files. Return the files that cannot be read, which it
        does not contain."""
        present = [*listed.present, *extra]
        self._closed = await asyncio.to_thread(self._unreadable, self._closed.intersection(present))
        while not await self._change_index(present, gone):
            others = [path for path in present if path not in self._closed]
            if not (found := await asyncio.to_thread(self._unreadable, others)):
                await self._add_all(listed, [path for path in extra if path not in self._closed])
                break
            self._closed |= found
        if present or gone or not self._tree:
            self._tree = (await self.run("write-tree")).decode().strip()
        return self._closed

    async def _change_index(self, present: list[str], gone: list[str]) -> bool:
        """Add and remove files. Return False if a file cannot be read or has disappeared."""
        present = [path for path in present if path not in self._closed]
        gone = list(dict.fromkeys([*gone, *self._closed.intersection(self._names or ())]))
        if gone:
            await self.run("update-index", "-z", "--force-remove", "--stdin", input=lines_of_names(gone))
        try:
            if present:
                await self._add(present)
        except GitFailed:
            return False
        if present or gone:
            self._change_names(present, gone)
        return True

    def _unreadable(self, paths: Iterable[str]) -> set[str]:
        """Return the regular files among `paths` that are there and cannot be read."""
        found = set()
        for path in paths:
            try:
                os.close(open_regular(f"{self.top}/{path}"))
            except OSError as error:
                found.update([path] if error.errno in (errno.EACCES, errno.EPERM, errno.EIO) else [])
        return found

    async def _add(self, present: list[str]) -> None:
        """Add files to the index. Many new files are written directly to packs, which avoids an object file for
        each. A few thousand at a time, since git searches everything packed so far for each file."""
        if len(present) < _MANY or not await self._git.packs_many():
            await self.run(*_ADD, input=lines_of_names(present))
            return
        for at in range(0, len(present), _PACKED):
            some = lines_of_names(present[at : at + _PACKED])
            await self.run("-c", "core.bigFileThreshold=1", "-c", "core.compression=1", *_ADD, input=some)
            self.progressed()

    async def _add_all(self, listed: _Listed, extra: list[str]) -> None:
        """Add all files, slowly, when one has disappeared meanwhile, which `git add` skips."""
        left_out = [*listed.large, *listed.nested]
        wanted = [f":(literal){self._scope}", *(f":(exclude,literal){name}" for name in left_out)]
        command = ("add", "--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
        await self.run(*command, input=lines_of_names(wanted), accept=(0, 1))
        if extra:
            await self._add(extra)
        await self._read_names()


_ADD = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")


def _unlock(index: Path) -> None:
    """Remove the lock of an index that a killed git left: the session's lock ensures that only this process uses
    it."""
    index.with_name(f"{index.name}.lock").unlink(missing_ok=True)


def _mode_of(path: str) -> int:
    """Return the permissions of a path; -1 if it is missing or a symbolic link."""
    try:
        status = os.lstat(path)
    except OSError:
        return -1
    return -1 if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)
