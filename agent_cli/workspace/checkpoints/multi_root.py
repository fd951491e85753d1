"""Checkpoints of a workspace with several folders: its root and those added with `--add-dir`.

Each folder has a separate store. A combined checkpoint is the root's id, followed by `|FOLDER=ID` for each
additional folder (percent-encoded). An empty ID means that the folder could not be saved. A checkpoint thus names
what it covers, and undo does not need the options of the session that took it.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from agent_cli.protocol.events import Conflict, RestoreReport
from agent_cli.protocol.messages import FileChange
from agent_cli.protocol.operations import Choice
from agent_cli.protocol.paths import is_inside

from .restore import join_reports
from .types import CheckpointError, Move, Snapshots

_MAIN = ""
"""Key of the workspace root; additional folders have their path."""


class MultiRootCheckpoints:
    """Saves and restores all folders of a workspace together."""

    def __init__(self, root: Path, extra: Sequence[Path], make: Callable[[Path], Snapshots]) -> None:
        """`extra` are the folders added to `root`; `make` creates the checkpoints of one folder."""
        self._root, self._make = root, make
        self._extra = tuple(str(folder) for folder in outermost(root, extra))
        self._made: dict[str, Snapshots] = {}
        self._failed: dict[str, str] = {}
        """Folders missing in the last checkpoint → reason."""

    def _of(self, folder: str) -> Snapshots:
        if folder not in self._made:
            self._made[folder] = self._make(Path(folder) if folder else self._root)
        return self._made[folder]

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(_shown(folder, path) for folder, each in self._made.items() for path in each.left_out)

    @property
    def uncovered(self) -> tuple[str, ...]:
        inner = (_shown(folder, path) for folder, each in self._made.items() for path in each.uncovered)
        return (*inner, *(f"{folder}/ ({why})" for folder, why in self._failed.items()))

    @property
    def needs_maintenance(self) -> bool:
        return any(each.needs_maintenance for each in self._made.values())

    async def take(self, about: Sequence[Move] = ()) -> str:
        """Save all folders. An additional folder that cannot be saved is listed in `uncovered`; only a failure of
        the root is an error."""
        ids = {_MAIN: await self._of(_MAIN).take([_part(move, _MAIN) for move in about])}
        self._failed = {}
        for folder in dict.fromkeys((*self._extra, *_folders(about))):
            known = [part for move in about if (part := _part(move, folder)).left and part.target]
            try:
                ids[folder] = await self._of(folder).take(known)
            except CheckpointError as error:
                ids[folder], self._failed[folder] = "", str(error)
        return _encoded(ids)

    async def cover(self, path: str, checkpoint: str) -> str:
        ids = _decoded(checkpoint)
        further = (each for each in ids if each and is_inside(path, (each,)))
        folder = _MAIN if is_inside(path, (str(self._root),)) else next(further, _MAIN)
        if not ids[folder]:
            raise CheckpointError(f"{folder} could not be saved")
        return _encoded({**ids, folder: await self._of(folder).cover(path, ids[folder])})

    async def mark_own_changes(self, before: str, after: str, until_s: float) -> str:
        ids = _decoded(after)
        for folder, one, two in _shared(before, after):
            ids[folder] = await self._of(folder).mark_own_changes(one, two, until_s)
        return _encoded(ids)

    async def changes(self, before: str, after: str) -> tuple[FileChange, ...]:
        found: list[FileChange] = []
        for folder, one, two in _shared(before, after):
            found += [_change(folder, each) for each in await self._of(folder).changes(one, two)]
        return tuple(found)

    async def diff(self, before: str, after: str) -> str:
        return "".join([await self._of(folder).diff(one, two) for folder, one, two in _shared(before, after)])

    async def carry_out(self, moves: Sequence[Move], *, dry_run: bool = False) -> RestoreReport:
        """Carry out moves in all folders. Folders missing in a checkpoint are reported."""
        reports = []
        for folder in (_MAIN, *_folders(moves)):
            known = [part for move in moves if (part := _part(move, folder)).left and part.target]
            if known:
                report = await self._of(folder).carry_out(known, dry_run=dry_run)
                reports.append(_placed(folder, report))
            if any(_lacks(move, folder) for move in moves):
                why = "the folder could not be saved when it was changed"
                reports.append(RestoreReport(conflicts=(Conflict(f"{folder}/", why, decidable=False),)))
        return join_reports(reports)

    async def resolve(
        self, moves: Sequence[Move], choice: Choice, paths: Collection[str], saved: str
    ) -> RestoreReport:
        reports = []
        now = _decoded(saved)
        for folder in (_MAIN, *_folders(moves)):
            known = [part for move in moves if (part := _part(move, folder)).left and part.target]
            inside = _paths_in(folder, paths)
            if known and now.get(folder) and (inside or not paths):
                report = await self._of(folder).resolve(known, choice, inside, now[folder])
                reports.append(_placed(folder, report))
        return join_reports(reports)

    async def maintain(self) -> None:
        for each in self._made.values():
            await each.maintain()


def outermost(root: Path, extra: Sequence[Path]) -> list[Path]:
    """Return the folders in `extra` that are neither inside `root` nor inside one another, in order."""
    found: list[Path] = []
    for folder in dict.fromkeys(extra):
        others = (root, *(each for each in extra if each != folder))
        if not any(folder.is_relative_to(other) for other in others):
            found.append(folder)
    return found


def _encoded(ids: Mapping[str, str]) -> str:
    return ids[_MAIN] + "".join(f"|{quote(os.fsencode(folder))}={ids[folder]}" for folder in ids if folder)


def _decoded(checkpoint: str) -> dict[str, str]:
    main, *parts = checkpoint.split("|")
    pairs = (part.partition("=") for part in parts)
    return {_MAIN: main, **{unquote(folder, errors="surrogateescape"): each for folder, _, each in pairs}}


def _part(move: Move, folder: str) -> Move:
    """Return a move restricted to one folder; ids are empty if a checkpoint does not contain it."""
    left, target = (_decoded(each).get(folder, "") for each in (move.left, move.target))
    only = None if move.only is None else frozenset(_paths_in(folder, move.only))
    within = tuple(part for each in move.within if (part := _part(each, folder)).left and part.target)
    if move.within and not within:  # nothing in this folder
        return Move("", "")
    return Move(left, target, only, within, frozenset(_paths_in(folder, move.foreign)))


def _lacks(move: Move, folder: str) -> bool:
    """Return True if an additional folder could not be saved in one of two checkpoints."""
    left, target = _decoded(move.left), _decoded(move.target)
    known = folder in left or folder in target
    return bool(folder) and known and not (left.get(folder) and target.get(folder))


def _folders(moves: Sequence[Move]) -> tuple[str, ...]:
    """Return the additional folders that occur in moves."""
    ids = (folder for move in moves for each in (move.left, move.target) for folder in _decoded(each))
    return tuple(dict.fromkeys(folder for folder in ids if folder))


def _shared(before: str, after: str) -> Iterator[tuple[str, str, str]]:
    """Yield each folder that both checkpoints contain, with its id in both."""
    one, two = _decoded(before), _decoded(after)
    yield from ((folder, one[folder], two[folder]) for folder in one if one[folder] and two.get(folder))


def _paths_in(folder: str, paths: Collection[str]) -> list[str]:
    """Return the display paths inside a folder, relative to it."""
    if not folder:
        return [path for path in paths if not path.startswith("/")]
    return [os.path.relpath(path, folder) for path in paths if is_inside(path, (folder,))]


def _shown(folder: str, path: str) -> str:
    return f"{folder.rstrip('/')}/{path}" if folder else path


def _change(folder: str, change: FileChange) -> FileChange:
    return msgspec.structs.replace(change, path=_shown(folder, change.path))


def _placed(folder: str, report: RestoreReport) -> RestoreReport:
    """Return a folder's report with full display paths."""
    if not folder:
        return report
    conflicts = (msgspec.structs.replace(each, path=_shown(folder, each.path)) for each in report.conflicts)
    restored = tuple(_change(folder, each) for each in report.restored)
    return msgspec.structs.replace(report, restored=restored, conflicts=tuple(conflicts))
