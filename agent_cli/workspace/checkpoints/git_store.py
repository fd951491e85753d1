"""Snapshots of the workspace in a private git store, outside the workspace and isolated from the user's own
repository.

A checkpoint is a commit. Its tree contains all tracked and untracked files and small ignored files, byte for byte.
Its message contains what git does not store (`metadata`): permissions, empty folders, omitted paths. Files of
nested repositories are separate trees. Restoring compares each path with the state the agent left behind and never
overwrites anything else. The user's index, HEAD, refs and stash are neither read nor written: a `git mv` by the
model stays in the index when its file is restored.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from agent_cli.fs.files import first_line, read_regular
from agent_cli.fs.which import RunProgram
from agent_cli.protocol.events import Conflict, RestoreReport
from agent_cli.protocol.messages import FileChange
from agent_cli.protocol.operations import Choice

from . import maintenance
from .git import GitFailed, PrivateGit, index_of, ref_of, too_slow
from .restore import Change, Entry, chains, join_reports, kind_of_change, plan_changes, printable, restore
from .types import UNKNOWN, CheckpointError, Move
from .user_git_state import UserGitState, note_on, repository_around

if TYPE_CHECKING:  # loaded with the first checkpoint, which may never be taken
    from .compare import Comparison
    from .index_sync import Saved, WorkTree
    from .metadata import DefaultModes, FolderPairs, SnapshotMetadata
    from .nested_repos import NestedTrees
    from .restore_folders import Folders
    from .scan import Inode

_Pair = TypeVar("_Pair")
_Taken = tuple[str, str, "SnapshotMetadata | None"]
_TRIES = 3
_MOST_NAMED = 20
_AT_ONCE = 200
"""Number of files to restore before other tasks run."""
_AHEAD = 50
"""Number of moves whose checkpoints are read at once."""
_NOTHING: Mapping[str, bytes] = {}
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LONGEST_EXCLUDE = 1_000_000


class _Net(msgspec.Struct, frozen=True):
    """The combined effect of several moves."""

    changes: dict[str, Change]
    folders: "FolderPairs"
    unsure: "FolderPairs"
    """Folders that are not changed, since it is unknown who changed them."""
    rest: RestoreReport
    """Changes that cannot be reverted."""


class _Limit:
    """Time limit of a checkpoint: `timeout_s` without progress, `most_s` in all."""

    def __init__(self, timeout_s: float, most_s: float) -> None:
        self._timeout_s, self._most_s = timeout_s, most_s
        self._began = asyncio.get_running_loop().time()
        self._has_progressed = False
        self.timeout = asyncio.timeout(timeout_s)

    def extend(self) -> None:
        """Begin to count anew: more was saved."""
        self._has_progressed = True
        now = asyncio.get_running_loop().time()
        self.timeout.reschedule(min(now + self._timeout_s, self._began + self._most_s))

    def exceeded(self) -> CheckpointError:
        """Return the error for a checkpoint that took too long."""
        if not self._has_progressed:
            return too_slow(self._timeout_s)
        return CheckpointError(
            f"saving the workspace takes longer than {self._most_s:.0f} s; the next turn continues where this one"
            " stopped"
        )


class Checkpoints:
    """Checkpoints of one workspace root, taken for one session."""

    def __init__(
        self,
        root: Path,
        store: Path,
        session_id: str,
        run: RunProgram,
        *,
        timeout_s: float,
        roots: Iterable[Path] = (),
        without: Iterable[Path] = (),
    ) -> None:
        """`roots` are further folders that commands write to: a git program inside them is never run. `without`
        are folders below `root` that are neither saved nor restored here."""
        self._git = PrivateGit(store, run, (root, *roots), timeout_s=timeout_s, every_name=True)
        self._run = run
        self._roots = (root, *roots)
        self._top = repository_around(root)
        """Folder where ignore files start to apply: the repository around the workspace, otherwise the
        workspace."""
        self._users_git = UserGitState(self._top)
        self._scope = os.path.relpath(root, self._top)
        self._store = store
        self._without = tuple(without)
        self._session_id = session_id
        self._timeout_s = timeout_s
        self.most_s = 120.0
        """Limit for a checkpoint of which more is saved every `timeout_s`. The next one continues from there."""
        self._limit: _Limit | None = None
        """Of the checkpoint that is being taken."""
        self._lock = asyncio.Lock()
        self._usual: DefaultModes | None = None
        self._last: _Taken = ("", "", None)
        """Id, tree (empty if unknown) and metadata of the newest checkpoint."""
        self._before: _Taken = self._last
        """The same of the one before, with which the newest is compared at the end of a turn."""
        self.left_out: tuple[str, ...] = ()
        """Display paths of files missing in the last checkpoint because they are larger than `LARGEST_BYTES`."""
        self.uncovered: tuple[str, ...] = ()
        """Other relevant paths missing in it, each with the reason in parentheses."""

    @cached_property
    def _files(self) -> "WorkTree":
        from .index_sync import WorkTree

        index, own = index_of(self._store, self._session_id), self._own_folders()
        tree = WorkTree(self._git, self._top, index, self._scope, own=own, timeout_s=self._timeout_s)
        tree.progressed = self._extend
        return tree

    @cached_property
    def _nested(self) -> "NestedTrees":
        from .nested_repos import NestedTrees

        return NestedTrees(
            self._git, self._top, index_of(self._store, self._session_id), timeout_s=self._timeout_s
        )

    def _extend(self) -> None:
        if self._limit is not None:
            self._limit.extend()

    async def take(self, about: Sequence[Move] = ()) -> str:
        async with self._lock:
            for attempt in range(1, _TRIES + 1):
                limit = self._limit = _Limit(self._timeout_s, self.most_s)
                try:
                    async with limit.timeout:
                        checkpoint = await self._take()
                        if missing := await self._missing_in(checkpoint, about):
                            self._files.covered.update(missing)
                            checkpoint = await self._take()
                        return checkpoint
                except TimeoutError:
                    raise limit.exceeded() from None
                except OSError as error:
                    raise CheckpointError(f"{self._store} cannot be written: {error.strerror}") from error
                except GitFailed:
                    if attempt == _TRIES:
                        raise
                    if attempt == _TRIES - 1:  # the index may refer to objects missing in the store
                        self._files.forget()
                        self._nested.forget()
            raise AssertionError("unreachable")

    async def _missing_in(self, checkpoint: str, moves: Sequence[Move]) -> list[str]:
        """Return the files that moves concern and a checkpoint leaves out, since they are ignored now."""
        kept = await self._read(checkpoint) if moves else None
        if kept is None or not kept.out:
            return []
        found: set[str] = set()
        for move in moves:
            found.update(await (await self._compare(move.left, move.target)).files())
        return [path for path in sorted(found) if kept.is_out(path) and path not in kept.covered]

    async def _take(self) -> str:
        from .metadata import most_common_modes

        self._git.prepare(self._exclusions())
        maintenance.mark(self._store, self._session_id)
        if self._usual is None:
            await self._take_up()
        top = await self._files.save(maintenance.newest_index(self._store))
        nested = {path: saved async for path, saved in self._nested.save(top.nested)}
        if self._usual is None:
            self._usual = most_common_modes(top.files, top.folders)
        kept = self._kept(self._usual, {"": top, **nested})
        self._tell(kept)
        if self._last[1:3] == (top.tree, kept):
            return self._last[0]
        return await self._commit(top.tree, kept)

    async def _take_up(self) -> None:
        """Continue from the session's newest checkpoint, if there is one."""
        from .metadata import decode_metadata

        maintenance.remove_torn_packs(self._store)
        with contextlib.suppress(OSError, GitFailed, ValueError):
            commit = first_line(ref_of(self._store, self._session_id))
            raw = await self._git("cat-file", "commit", commit)
            kept = decode_metadata(raw.partition(b"\n\n")[2])
            if kept.has_folders:
                self._usual = kept.usual
                self._files.covered.update(kept.covered)
                self._last = (commit, raw.partition(b"\n")[0].decode().removeprefix("tree "), kept)

    def _kept(self, usual: "DefaultModes", states: Mapping[str, "Saved"]) -> "SnapshotMetadata":
        """Return the metadata of all work trees that git does not store."""
        from .metadata import SnapshotMetadata, group_links, stamps_of

        modes: dict[str, int] = {}
        folders: dict[str, int] = {}
        empty: list[str] = []
        out = dict(self._nested.out)
        linked: dict[str, Inode] = {}
        special: dict[str, str] = {}
        for prefix, saved in states.items():
            at = f"{prefix}/" if prefix else ""
            plain = {-1, *(mode for mode in (usual.file, usual.program) if mode == usual.of_mode(mode))}
            modes |= {at + path: mode for path, mode in saved.files.items() if mode not in plain}
            folders |= {at + path: mode for path, mode in saved.folders.items() if mode != usual.folder}
            empty += [at + path for path in saved.empty]
            out |= {at + path: why for path, why in saved.out.items()}
            linked |= {at + path: inode for path, inode in saved.linked.items()}
            special |= {at + path: kind for path, kind in saved.special.items()}
        covered = tuple(sorted(self._files.covered))
        stamps, git = stamps_of(self._top, out), self._users_git.state()
        nested = self._nested.kept(states)
        return SnapshotMetadata(
            usual, modes, folders, tuple(sorted(empty)), out, covered, nested, stamps, git,
            links=group_links(linked), special=special,
        )  # fmt: skip

    def _tell(self, kept: "SnapshotMetadata") -> None:
        large = [path for path, why in kept.out.items() if why.startswith("larger")]
        self.left_out = tuple(self._shown(path) for path in sorted(large))
        others = {path: why for path, why in sorted(kept.out.items()) if why and path not in large}
        single = [path for path in others if not path.endswith("/")]
        told = [f"{self._shown(path)} ({why})" for path, why in others.items() if path.endswith("/")]
        if len(single) == 1:
            told += [f"{self._shown(path)} ({others[path]})" for path in single]
        elif single:
            told.append(f"{len(single):,} single files ({others[single[0]]})")
        self.uncovered = tuple(told)

    async def _commit(self, tree: str, kept: "SnapshotMetadata") -> str:
        from .metadata import encode_metadata

        parents = [self._last[0]] if self._last[0] else []
        parents += await self._nested.commits(kept)
        options = [word for parent in dict.fromkeys(parents) for word in ("-p", parent)]
        commit = (await self._git("commit-tree", tree, *options, input=encode_metadata(kept))).decode().strip()
        maintenance.name_newest(self._store, self._session_id, commit)
        self._before, self._last = self._last, (commit, tree, kept)
        return commit

    async def cover(self, path: str, checkpoint: str) -> str:
        if os.path.relpath(path, self._top / self._scope).split("/")[0] == "..":
            raise CheckpointError(f"{path} is outside the workspace")
        relative = os.path.relpath(path, self._top)
        for folder in Path(relative).parents:
            if folder != Path(".") and (self._top / folder / ".git").exists():
                if self._files.enters(folder.as_posix()):
                    break  # it became a repository after its files were indexed
                if not await self._nested.covers(folder.as_posix(), relative):
                    raise CheckpointError(f"{self._shown(relative)} is in a separate repository")
                return checkpoint
        if self._files.holds(relative):
            return checkpoint
        async with self._lock:
            if await self._files.ignored([relative]):
                if os.path.lexists(path):
                    from .scan import size_note

                    if why := size_note(os.lstat(path).st_size):
                        raise CheckpointError(f"{self._shown(relative)} is {why}")
                    checkpoint = await self._with_ignored(relative, checkpoint)
                self._files.covered.add(relative)
        return checkpoint

    async def _with_ignored(self, relative: str, checkpoint: str) -> str:
        kept = await self._read(checkpoint)
        tree = await self._files.with_file(checkpoint, relative)
        mode = os.lstat(self._top / relative).st_mode & 0o7777
        modes = kept.modes if mode == kept.usual.of_mode(mode) else {**kept.modes, relative: mode}
        covered = tuple(sorted({*kept.covered, relative}))
        return await self._commit(tree, msgspec.structs.replace(kept, modes=modes, covered=covered))

    async def mark_own_changes(self, before: str, after: str, until_s: float) -> str:
        own = await (await self._compare(before, after)).as_since(self._top, until_s)
        if not own or after != self._last[0]:
            return after
        kept = msgspec.structs.replace(await self._read(after), own=own)
        return await self._commit(self._last[1], kept)

    async def changes(self, before: str, after: str) -> tuple[FileChange, ...]:
        compared = await self._compare(before, after)
        counts = await compared.line_counts()
        found = []
        for path, (old, new) in (await compared.files()).items():
            found.append(FileChange(self._shown(path), kind_of_change(old, new), *counts.get(path, (0, 0))))
        for path, (was, becomes) in (await compared.folders()).items():
            if was != becomes:
                kind = kind_of_change(_presence(was), _presence(becomes))
                found.append(FileChange(f"{self._shown(path)}/", kind))
        return tuple(found)

    async def diff(self, before: str, after: str) -> str:
        return await (await self._compare(before, after)).diff()

    async def carry_out(self, moves: Sequence[Move], *, dry_run: bool = False) -> RestoreReport:
        from .compare import batches
        from .restore_folders import Folders

        net = await self._net(moves)
        reports = [net.rest]
        differing = {path: (each.start, each.end) for path, each in net.changes.items() if each.start != each.end}
        target = await self._read(moves[-1].target)
        folders = Folders(self._top, net.folders, target, dry_run=dry_run)
        folders.open()
        gone = {path: (each.start, each.end) for path, each in net.changes.items() if each.is_gone}
        deleted = {path: pair for path, pair in differing.items() if not pair[1].blob} | gone
        put = {path: pair for path, pair in differing.items() if pair[1].blob}
        try:
            reports += [each async for each in self._in_parts(deleted, {}, folders, dry_run)]
            folders.remove()
            if dry_run:
                reports += [each async for each in self._in_parts(put, {}, folders, dry_run)]
            else:
                async for batch, needed in batches(self._git, put):
                    reports += [each async for each in self._in_parts(batch, needed, folders)]
        finally:
            reports.append(folders.close())
        reports.append(await self._separated(moves, reports))
        held_up = [Conflict(self._shown(path), each.reason) for path, each in net.changes.items() if each.reason]
        held_up += [Conflict(f"{self._shown(path)}/", UNKNOWN) for path in folders.differing(net.unsure)]
        told = {conflict.path for report in reports for conflict in report.conflicts}
        reports.append(RestoreReport(conflicts=tuple(each for each in held_up if each.path not in told)))
        return join_reports(reports)

    async def _separated(self, moves: Sequence[Move], reports: Sequence[RestoreReport]) -> RestoreReport:
        """Report which hard links have become separate files."""
        left, target = await self._read(moves[0].left), await self._read(moves[-1].target)
        restored = {change.path for report in reports for change in report.restored}
        found = [
            self._shown(path)
            for names in target.links
            if (len(names) > 1 and names not in left.links) or restored.intersection(map(self._shown, names))
            for path in names
        ]
        if not found:
            return RestoreReport()
        more = f" and {len(found) - _MOST_NAMED} more" * (len(found) > _MOST_NAMED)
        names = ", ".join(found[:_MOST_NAMED]) + more
        return RestoreReport(notes=(f"hard links are not restored; these are separate files now: {names}",))

    async def _in_parts(
        self, pairs: Mapping[str, tuple[Entry, Entry]], needed: Mapping[str, bytes], folders: "Folders",
        dry_run: bool = False,
    ) -> AsyncIterator[RestoreReport]:  # fmt: skip
        """Restore files in parts, between which the screen is drawn and keys are read."""
        left = iter(pairs.items())
        while part := dict(islice(left, _AT_ONCE)):
            yield restore(
                self._top, part, needed.__getitem__, shown=self._shown, keep=folders.keep, made=folders.made,
                created=folders.created, emptied=folders.emptied, dry_run=dry_run,
            )  # fmt: skip
            await asyncio.sleep(0)

    async def resolve(
        self, moves: Sequence[Move], choice: Choice, paths: Collection[str], saved: str
    ) -> RestoreReport:
        from .compare import contents, entries
        from .resolve import decide
        from .restore_folders import Folders

        net = await self._net(moves)
        wanted = {path: each for path, each in net.changes.items() if not paths or self._shown(path) in paths}
        concerned = {path: each for path, each in wanted.items() if each.is_open}
        now = await entries(self._git, saved, await self._read(saved), list(concerned))

        async def load(blobs: Collection[str]) -> Mapping[str, bytes]:
            return await contents(self._git, blobs)

        report = await decide(self._top, concerned, choice, now, load, self._shown)
        named = {path.rstrip("/") for path in paths}
        chosen = {path: pair for path, pair in net.unsure.items() if not paths or self._shown(path) in named}
        if choice == "mine" or not chosen:
            return report
        target = await self._read(moves[-1].target)
        folders = Folders(self._top, chosen, target)
        folders.open()
        folders.remove()
        return join_reports((report, folders.close()))

    async def maintain(self) -> None:
        await maintenance.maintain(self._store, self._run, self._roots)

    @property
    def needs_maintenance(self) -> bool:
        return maintenance.is_due(self._store)

    async def _net(self, moves: Sequence[Move]) -> "_Net":
        """Return the combined effect of moves."""
        from .compare import Touched
        from .metadata import add_folders

        steps, out = [], dict[str, Conflict]()
        folders: FolderPairs = {}
        unsure: FolderPairs = {}
        gits = []
        ahead = _NOTHING
        for at, move in enumerate(moves):
            if at % _AHEAD == 0:
                ahead = await self._read_ahead(moves[at : at + _AHEAD])
            compared = await self._compare(move.left, move.target, ahead)
            touched = Touched([await self._compare(each.left, each.target, ahead) for each in move.within])
            refusal = partial(move.refusal, own=frozenset(map(self._shown, compared.own)))
            steps.append((self._without_own(await touched.files(await compared.files())), refusal))
            gits.append(compared.users_git)
            out |= {} if move.within else {each.path: each for each in compared.not_held(self._shown)}
            more = self._without_own(await touched.folders(await compared.folders()))
            add_folders(more, folders if move.only is None else unsure)
        changes = await asyncio.to_thread(plan_changes, self._top, chains(steps, self._shown))
        note = note_on(gits, self._users_git.state())
        rest = RestoreReport(conflicts=tuple(out.values()), notes=(note,) if note else ())
        return _Net(changes, folders, unsure, rest)

    async def _compare(self, left: str, right: str, ahead: Mapping[str, bytes] = _NOTHING) -> "Comparison":
        from .compare import Comparison

        return Comparison(self._git, left, right, await self._read(left, ahead), await self._read(right, ahead))

    async def _read_ahead(self, moves: Sequence[Move]) -> Mapping[str, bytes]:
        """Read the checkpoints of some moves with one process; return their data by id, without missing ones."""
        from .compare import contents

        ends = {end for move in moves for each in (move, *move.within) for end in (each.left, each.target)}
        return await contents(self._git, [end for end in ends if _COMMIT.fullmatch(end)]) if len(ends) > 2 else {}

    async def _read(self, checkpoint: str, ahead: Mapping[str, bytes] = _NOTHING) -> "SnapshotMetadata":
        from .metadata import decode_metadata

        for known, _, kept in (self._last, self._before):
            if checkpoint == known and kept is not None:
                return kept
        if not _COMMIT.fullmatch(checkpoint):  # the session file could hold an option of git
            raise CheckpointError(f"{checkpoint[:80]!r} is not a checkpoint")
        try:
            raw = ahead.get(checkpoint) or await self._git("cat-file", "commit", checkpoint)
        except GitFailed as error:
            raise CheckpointError(f"the checkpoint is not in {self._store} ({error})") from error
        try:
            return decode_metadata(raw.partition(b"\n\n")[2])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"the checkpoint {checkpoint} cannot be read: {error}") from error

    def _shown(self, path: str) -> str:
        """Return a path for display, relative to the workspace."""
        return printable(path if self._scope == "." else os.path.relpath(path, self._scope))

    def _own_folders(self) -> frozenset[str]:
        """Return the folders inside the work tree that are not saved: the store itself, and those saved
        separately."""
        inside = (each for each in (self._store, *self._without) if each.is_relative_to(self._top))
        return frozenset(each.relative_to(self._top).as_posix() for each in inside)

    def _without_own(self, pairs: dict[str, _Pair]) -> dict[str, _Pair]:
        """Leave out paths in folders that are not saved: an older version may have saved them."""
        from .scan import entry_covering

        own = {f"{folder}/" for folder in self._own_folders()}
        return (
            {path: pair for path, pair in pairs.items() if not entry_covering(f"{path}/", own)} if own else pairs
        )

    def _exclusions(self) -> bytes:
        """Return the user's excludes for this clone, plus the store itself."""
        lines = b""
        with contextlib.suppress(OSError):
            lines = read_regular(self._top / ".git" / "info" / "exclude", _LONGEST_EXCLUDE)
        return lines + b"".join(b"\n/" + os.fsencode(folder) + b"/\n" for folder in self._own_folders())


def _presence(mode: int | None) -> Entry:
    return Entry() if mode is None else Entry("folder")
