"""How long sessions are kept, and what goes with one: the output it spilled, its notes and its log, and by way of
`OnDelete` its checkpoints.

Oldest first. Never removed: sessions in use, and those that the user has given a name.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from agent_cli.fs.files import make_private

from .catalog import SessionInfo, Sessions
from .file_names import NAME
from .prune_notices import DAY_S, announce, read_announced
from .session_file import SessionLocked, StoreError

OnDelete = Callable[[Path, str], None]
"""Told the state folder of the project and the id of a deleted session, so that its checkpoints go too."""


class Expiring(msgspec.Struct, frozen=True):
    """A session that would be removed."""

    info: SessionInfo
    size_bytes: int
    """With what it spilled and its share of the project's checkpoints."""
    reason: str


class Pruned(msgspec.Struct, frozen=True):
    """What was removed, or would be."""

    going: tuple[Expiring, ...]
    total_bytes: int
    """Of all sessions before, with all that belongs to them; 0 where nobody had to know."""
    kept: tuple[str, ...] = ()
    """Sessions that were to go and stayed, with the reason."""

    @property
    def size_bytes(self) -> int:
        """Of what goes."""
        return sum(each.size_bytes for each in self.going)


def discard(sessions: Sessions, state: Path, path: Path, on_delete: OnDelete | None = None) -> None:
    """Delete a session and all that belongs to it, itself last: what is killed half-way is done the next time.
    `state` is the program's state folder.

    Raises:
        SessionLocked: it is in use.
        StoreError: it cannot be read or removed.
    """
    named = NAME.fullmatch(path.name)
    identifier = named.group(2) if named else ""

    def belongings() -> None:
        if not identifier:
            return  # a file with a name of its own: nothing is known to belong to it
        for folder in _belongings(state, identifier):
            shutil.rmtree(folder, ignore_errors=True)
        for log in (state / "logs").glob(f"{identifier}.*"):
            with contextlib.suppress(OSError):
                log.unlink()
        if on_delete is not None:
            on_delete(state / "projects" / path.parent.name, identifier)

    sessions.delete(path, belongings)


def plan(sessions: Sessions, state: Path, keep_days: int | None, keep_mb: int | None, now: float) -> Pruned:
    """Return what is to go at the time `now` (seconds since the epoch): sessions written last more than
    `keep_days` days ago, then the oldest until all that is left fits `keep_mb` megabytes. None for no bound.

    Raises:
        StoreError: the sessions cannot be read.
    """
    infos = sessions.list(limit=None)
    shares = _shares(state, infos)
    sizes = {info.path: info.size_bytes + _own_bytes(state, info.id) + shares[_project(info)] for info in infos}
    total = left = sum(sizes.values())
    going = []
    for info in reversed(infos):  # oldest first
        days = (now - info.updated) / DAY_S
        too_old = keep_days is not None and days > keep_days
        too_much = keep_mb is not None and left > keep_mb * 1_000_000
        if info.named or not (too_old or too_much):
            continue
        reason = f"{int(days)} days old" if too_old else f"more than {keep_mb} MB in all"
        going.append(Expiring(info, sizes[info.path], reason))
        left -= sizes[info.path]
    return Pruned(tuple(going), total)


def prune(sessions: Sessions, state: Path, planned: Pruned, on_delete: OnDelete | None = None) -> Pruned:
    """Remove what was planned, and drafts of crashes; returns what has gone, and what stayed and why."""
    _sweep(sessions.folder)
    gone, kept = [], []
    for each in planned.going:
        try:
            discard(sessions, state, Path(each.info.path), on_delete)
            gone.append(each)
        except SessionLocked:
            kept.append(f"{each.info.id} is in use")
        except StoreError as error:
            kept.append(f"{each.info.id}: {error}")
    return Pruned(tuple(gone), planned.total_bytes, tuple(kept))


def prune_if_due(
    sessions: Sessions,
    state: Path,
    keep_days: int | None,
    keep_mb: int | None,
    on_delete: OnDelete | None = None,
    now: float | None = None,
) -> Pruned | None:
    """Remove what is to go and was announced a day ago, and note the rest as to be announced, at most once a day;
    None when it was not due or could not be done. Blocks while files are read and removed, so it is meant for a
    thread, and never raises for the state of the disk.

    Days count from when the newest session was written: who comes back after a long time, or with a clock that is
    wrong, finds everything as it was left.
    """
    now = time.time() if now is None else now
    if keep_days is None and keep_mb is None:
        return None
    try:
        if not _is_due(state / "cache" / "pruned", now):
            return None
        newest = max((info.updated for info in sessions.list(limit=1)), default=now)
        today = min(now, newest)
        is_beyond = _may_be_beyond(sessions, state, keep_days, keep_mb, today)
        planned = plan(sessions, state, keep_days, keep_mb, today) if is_beyond else Pruned((), 0)
        announced = read_announced(state, now)
        ripe = announced.ripe(now)
        going = tuple(each for each in planned.going if each.info.id in ripe)
        done = prune(sessions, state, msgspec.structs.replace(planned, going=going), on_delete)
        gone = {each.info.id for each in done.going}
        left = [each.info.id for each in planned.going if each.info.id not in gone]
        announce(state, _why(keep_days, keep_mb), {name: announced.ids.get(name, 0.0) for name in left}, now)
        return done
    except (StoreError, OSError):
        return None


def _may_be_beyond(
    sessions: Sessions, state: Path, keep_days: int | None, keep_mb: int | None, now: float
) -> bool:
    """Return whether something may be too old or too much, by listings of folders alone: `plan` opens the index,
    which a program that prunes nothing need not load."""
    stats = [path.stat() for path in sessions.paths()]
    if keep_days is not None and any(now - each.st_mtime > keep_days * DAY_S for each in stats):
        return True
    if keep_mb is None:
        return False
    beside = sum(folder_bytes(state / name) for name in ("spill", "notes", "projects"))
    return sum(each.st_size for each in stats) + beside > keep_mb * 1_000_000


def _why(keep_days: int | None, keep_mb: int | None) -> str:
    bounds = [f"older than {keep_days} days"] if keep_days is not None else []
    return " or ".join([*bounds, f"beyond {keep_mb} MB"] if keep_mb is not None else bounds)


def _sweep(folder: Path) -> None:
    """Drafts of session files that were never finished."""
    for draft in folder.glob("*/.*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - draft.stat().st_mtime > DAY_S:
                draft.unlink()


def _is_due(mark: Path, now: float) -> bool:
    """Return whether a day has passed since this was last said yes to."""
    with contextlib.suppress(FileNotFoundError):
        if 0 <= now - mark.stat().st_mtime < DAY_S:
            return False
    make_private(mark.parent)
    mark.touch(mode=0o600)
    os.utime(mark, (now, now))
    return True


def _belongings(state: Path, identifier: str) -> tuple[Path, ...]:
    return (state / "spill" / identifier, state / "notes" / identifier)


def _own_bytes(state: Path, identifier: str) -> int:
    return sum(folder_bytes(folder) for folder in _belongings(state, identifier))


def _shares(state: Path, infos: Sequence[SessionInfo]) -> dict[str, int]:
    """By project: its checkpoints in bytes, divided by the number of its sessions; what is shared cannot be told
    apart."""
    counts: dict[str, int] = {}
    for info in infos:
        counts[_project(info)] = counts.get(_project(info), 0) + 1
    stores = {
        name: [*(state / "projects" / name).glob("checkpoints*"), *(state / "projects" / name).glob("copies*")]
        for name in counts
    }
    return {name: sum(map(folder_bytes, stores[name])) // count for name, count in counts.items()}


def _project(info: SessionInfo) -> str:
    return Path(info.path).parent.name


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder; 0 where there is none."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total
