"""The files of one work tree in an index of their own: that of the workspace, or of a repository nested in it. git
tells what has changed and what is ignored, one walk of ours (`looking`) the rest, and the index takes what is new.

What is ignored is held too, as far as it is small (`looking.MOST_IGNORED_FILES`): files of settings and secrets
such as `.env` are what an undo is missed for most. They are kept byte for byte, in the private store of the user.
"""

import asyncio
import contextlib
import os
import shutil
import stat
import time
from pathlib import Path

import msgspec

from .ignore_files import BadIgnoreFile, unless_held_up
from .looking import Allowance, Look, Loose, absent, look, measured, parents_of, size_note
from .private_git import CheckpointError, GitFailed, PrivateGit

_MOST_ROUNDS = 40
_MOST_OUT = 20_000
_SLOW_S = 1.0


class TooMuch(Exception):
    """More files than a nested repository may have; the text says how many."""


class Saved(msgspec.Struct, frozen=True):
    """One state of a work tree. Paths are relative to its top."""

    tree: str
    files: list[tuple[str, int]]
    """Regular files with their permissions."""
    folders: dict[str, int]
    empty: tuple[str, ...]
    out: dict[str, str]
    nested: tuple[str, ...]
    """Repositories in it, whose files are not in its tree."""


class _Listed(msgspec.Struct, frozen=True):
    """What git says has changed since the index was written."""

    present: list[str]
    gone: list[str]
    large: dict[str, str]
    nested: tuple[str, ...]


class WorkTree:
    """One work tree; `scope` is the folder in it that counts, `.` for all. `own` are folders that are never saved,
    relative to the top: where the store lies. `most` bounds files and bytes that are new at a time; 0: no bound."""

    def __init__(
        self, git: PrivateGit, top: Path, index: Path, scope: str, *, own: frozenset[str], timeout_s: float,
        most: tuple[int, int] = (0, 0),
    ) -> None:  # fmt: skip
        self.top = top
        self.covered: set[str] = set()
        """Ignored files that a tool is about to write."""
        self._git = git
        self._index = index
        self._scope = scope
        self._own = own
        self._timeout_s = timeout_s
        self._most = most
        self._names: set[str] | None = None
        """The files in the index; None while it was not read."""
        self._known: set[str] = set()
        self._tree = ""
        self._out: dict[str, str] = {}
        """Ignored folders and files that were found too large; they stay out."""
        self._allowance = Allowance()

    def holds(self, path: str) -> bool:
        """Whether a file is in the index, or will be when it is there."""
        return path in self.covered or (self._names is not None and path in self._names)

    def forget(self) -> None:
        """Throw the index away; the next state is read from the files alone."""
        self._names, self._tree = None, ""
        self._allowance = Allowance()
        for file in (self._index, self._index.with_name(f"{self._index.name}.lock")):
            file.unlink(missing_ok=True)

    async def save(self, adopt: Path | None = None) -> Saved:
        """Put the present state into the store. `adopt` is the index of another session, to begin with where there
        is none: it spares reading what it knows already.

        Raises:
            CheckpointError: it cannot be read or written.
            TooMuch: it has more files than it may.
            TimeoutError: it takes too long.
        """
        await self._begin(adopt)
        listed = await self._list()
        names = (self._names or set()).union(listed.present).difference(listed.gone)
        self._let_in(listed)
        found, out, small = await self._look_around(names, listed)
        extra = small + self._admitted(found.loose, out)
        gone = listed.gone + sorted(name for name in absent(names, found) if not self._is_out(name))
        await self._update(listed, [*listed.present, *(each.path for each in extra)], gone)
        found.files += [(each.path, each.mode) for each in extra if each.mode >= 0]
        out |= listed.large
        empty = sorted(found.folders.keys() - self._known)
        return Saved(self._tree, found.files, found.folders, tuple(empty), out, listed.nested)

    async def run(self, *arguments: str, input: bytes = b"", accept: tuple[int, ...] = (0,)) -> bytes:
        """git, on this index and work tree."""
        return await self._git(*arguments, work=self.top, index=self._index, input=input, accept=accept)

    async def ignored(self, paths: list[str]) -> set[str]:
        """Those that ignore files cover, tracked or not."""
        given = b"".join(os.fsencode(path) + b"\0" for path in paths)
        found = await self.run("check-ignore", "--no-index", "-z", "--stdin", input=given, accept=(0, 1))
        return {os.fsdecode(path) for path in found.split(b"\0") if path}

    async def with_file(self, checkpoint: str, path: str) -> str:
        """The tree of a checkpoint with one more file, as that file is now."""
        draft = self._index.with_name(f"{self._index.name}.draft")
        try:
            await self._git("read-tree", checkpoint, work=self.top, index=draft)
            await self._git(*_ADD, work=self.top, index=draft, input=os.fsencode(path) + b"\0")
            return (await self._git("write-tree", work=self.top, index=draft)).decode().strip()
        finally:
            draft.unlink(missing_ok=True)

    async def _begin(self, adopt: Path | None) -> None:
        # Left by a git that was killed; the session's lock makes this process the only one to use the index.
        self._index.with_name(f"{self._index.name}.lock").unlink(missing_ok=True)
        if self._names is not None:
            return
        if not self._index.exists() and adopt is not None:
            with contextlib.suppress(OSError):  # with its time, by which git knows what to look at again
                await asyncio.to_thread(shutil.copy2, adopt, self._index)
        await self._read_names() if self._index.exists() else self._set_names(set())

    async def _read_names(self) -> None:
        listing = await self.run("ls-files", "-z")
        self._set_names({os.fsdecode(name) for name in listing.split(b"\0") if name})

    def _set_names(self, names: set[str]) -> None:
        self._names = names
        self._known = parents_of(names)

    async def _list(self) -> _Listed:
        """What is not as in the index: bounded by what git ignores."""
        began = time.monotonic()
        listing = self.run("ls-files", "-z", "--others", "--modified", "--exclude-standard", "--", self._scope)
        try:
            raw = await unless_held_up(listing, self.top / self._scope)
        except BadIgnoreFile as error:
            raise CheckpointError(str(error)) from error
        if self._names and time.monotonic() - began > _SLOW_S:  # files were touched: else they are read each time
            await self.run("update-index", "-q", "--refresh", accept=(0, 1))
        names = dict.fromkeys(os.fsdecode(name) for name in raw.split(b"\0") if name)
        nested = tuple(name.rstrip("/") for name in names if name.endswith("/"))
        present, gone, large, total = [], [], {}, 0
        for name in [*names, *self.covered]:
            try:
                status = os.lstat(f"{self.top}/{name}")
            except OSError:
                gone.append(name)
                continue
            if stat.S_ISREG(status.st_mode) and (why := size_note(status.st_size)):
                large[name] = why
            elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                present.append(name)
                total += status.st_size
            elif not name.endswith("/"):
                gone.append(name)
        if self._most[0] and (len(present) > self._most[0] or total > self._most[1]):
            raise TooMuch(f"{len(present):,} files, {total / 1e6:,.0f} MB")
        gone = [name for name in gone if self._names and name in self._names]
        return _Listed([*dict.fromkeys(present)], gone, large, nested)

    async def _look_around(self, names: set[str], listed: _Listed) -> tuple[Look, dict[str, str], list[Loose]]:
        """Walk what counts, also folders in which git knows nothing. Gives what is there, what is left out, and the
        files of small ignored folders."""
        top, start = str(self.top), "" if self._scope == "." else self._scope
        ends_at = time.monotonic() + self._timeout_s
        skip = {*listed.nested, *self._own, *listed.large, *(folder.rstrip("/") for folder in self._out)}
        known = parents_of(names)
        found = await asyncio.to_thread(look, top, [start], names, known, skip, ends_at)
        out: dict[str, str] = {}
        small: list[Loose] = []
        for _ in range(_MOST_ROUNDS):
            if not (asked := found.unknown):
                break
            ignored = await self.ignored(asked)
            for folder in sorted(ignored):
                small += await self._weighed(folder, found)
            plain = [folder for folder in asked if folder not in ignored]
            found.folders.update((folder, _mode_of(f"{top}/{folder}") or 0o755) for folder in plain)
            found.add(await asyncio.to_thread(look, top, plain, names, known, skip, ends_at))
        out |= {path: why for path, why in self._out.items() if os.path.lexists(f"{top}/{path}")}
        out |= {f"{folder}/": "it cannot be listed" for folder in found.closed}
        written = [path for path in self.covered if path in names and self._is_out(path)]
        found.files += [(path, mode) for path in written if (mode := _mode_of(f"{top}/{path}")) is not None]
        return found, out, small

    def _is_out(self, path: str) -> bool:
        at = path.find("/")
        while at >= 0:
            if path[: at + 1] in self._out:
                return True
            at = path.find("/", at + 1)
        return path in self._out

    def _let_in(self, listed: _Listed) -> None:
        """What is not ignored any more is not left out any more either."""
        if self._out:
            for name in listed.present:
                while name and name not in self.covered:
                    self._out.pop(name, None)
                    name = f"{folder}/" if (folder := name.rstrip("/").rpartition("/")[0]) else ""

    async def _weighed(self, folder: str, found: Look) -> list[Loose]:
        """The files of an ignored folder, unless it is left out."""
        inside = await asyncio.to_thread(measured, str(self.top), folder)
        if not inside.why_not and not self._allowance.grants(len(inside.files), inside.size_bytes):
            inside.why_not = f"ignored, {len(inside.files):,} files"
        if inside.why_not:
            self._out[f"{folder}/"] = inside.why_not.strip()
            return []
        found.folders.update(inside.folders)
        return inside.files

    def _admitted(self, loose: list[Loose], out: dict[str, str]) -> list[Loose]:
        """The ignored files that may be held; the others are noted in `out`."""
        chosen = []
        for each in sorted(loose, key=lambda each: each.size_bytes):
            if why := size_note(each.size_bytes):
                out[each.path] = why
            elif self._allowance.grants(1, each.size_bytes):
                chosen.append(each)
            elif len(self._out) < _MOST_OUT:
                out[each.path] = self._out[each.path] = "ignored, and there are too many"
        return chosen

    async def _update(self, listed: _Listed, present: list[str], gone: list[str]) -> None:
        if gone:
            await self.run("update-index", "-z", "--force-remove", "--stdin", input=_lines(gone))
        if present:
            try:
                await self.run(*_ADD, input=_lines(present))
            except GitFailed:  # one cannot be read, or went away: git knows how to pass over it, at a price
                await self._add_all(listed)
                await self._read_names()
            else:
                self._set_names((self._names or set()).difference(gone).union(present))
        elif gone:
            self._set_names((self._names or set()).difference(gone))
        if present or gone or not self._tree:
            self._tree = (await self.run("write-tree")).decode().strip()

    async def _add_all(self, listed: _Listed) -> None:
        left_out = [*listed.large, *listed.nested]
        wanted = [f":(literal){self._scope}", *(f":(exclude,literal){name}" for name in left_out)]
        command = ("add", "--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
        await self.run(*command, input=_lines(wanted), accept=(0, 1))


_ADD = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")


def _lines(paths: list[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _mode_of(path: str) -> int | None:
    """Permissions of what is there and no link."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return None if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)
