"""Delete old sessions with everything that belongs to them: their spilled output, notes and logs, and,
through `OnDelete`, their checkpoints.

The oldest go first. Sessions in use and those named by the user are never removed.
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
"""Called with the project's state folder and the id of a deleted session, to delete its checkpoints."""


class Expiring(msgspec.Struct, frozen=True):
    """A session to be removed."""

    info: SessionInfo
    size_bytes: int
    """Size including its spilled output and its share of the project's checkpoints."""
    reason: str


class Pruned(msgspec.Struct, frozen=True):
    """The sessions removed, or to be removed."""

    going: tuple[Expiring, ...]
    total_bytes: int
    """Size of all sessions before, with everything that belongs to them; 0 if it was not needed."""
    kept: tuple[str, ...] = ()
    """Sessions that should have been removed but were not, with the reason."""

    @property
    def size_bytes(self) -> int:
        """Total size of the removed sessions."""
        return sum(each.size_bytes for each in self.going)


def discard(sessions: Sessions, state: Path, path: Path, on_delete: OnDelete | None = None) -> None:
    """Delete a session and everything that belongs to it, the session file last, so that an interrupted deletion
    is completed the next time. `state` is the program's state folder.

    Raises:
        SessionLocked: it is in use.
        StoreError: it cannot be read or removed.
    """
    named = NAME.fullmatch(path.name)
    identifier = named.group(2) if named else ""

    def belongings() -> None:
        if not identifier:
            return  # a file with another name: nothing is known to belong to it
        for folder in _belongings(state, identifier):
            shutil.rmtree(folder, ignore_errors=True)
        for log in (state / "logs").glob(f"{identifier}.*"):
            with contextlib.suppress(OSError):
                log.unlink()
        if on_delete is not None:
            on_delete(state / "projects" / path.parent.name, identifier)

    sessions.delete(path, belongings)


def plan(sessions: Sessions, state: Path, keep_days: int | None, keep_mb: int | None, now: float) -> Pruned:
    """Return the sessions to remove at the time `now` (seconds since the epoch): those last written more than
    `keep_days` days ago, then the oldest until the rest fits in `keep_mb` megabytes. None means no limit.

    Raises:
        StoreError: the sessions cannot be read.
    """
    infos = sessions.list(limit=None)
    shares = _shares(state, infos)
    sizes = {
        info.path: info.size_bytes + sum(map(folder_bytes, _belongings(state, info.id))) + shares[_project(info)]
        for info in infos
    }
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
    """Remove the planned sessions, and drafts left by crashes; return what was removed, and what was kept and
    why."""
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
    """Remove the sessions announced at least a day ago and announce the others, at most once a day; return None if
    it was not due or not possible. Blocks on file access, so run it in a thread; never raises for the state of
    the disk.

    Days, that since the announcement included, count from the last write of the newest session: after a long
    absence, or with a wrong clock, the user finds everything as it was.
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
        ripe = announced.ripe(today)
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
    """Return True if something may exceed the limits, judged by directory listings alone: `plan` opens the index,
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
    """Delete drafts of session files that were never finished."""
    for draft in folder.glob("*/.*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - draft.stat().st_mtime > DAY_S:
                draft.unlink()


def _is_due(mark: Path, now: float) -> bool:
    """Return True if a day has passed since the last time this returned True."""
    with contextlib.suppress(FileNotFoundError):
        if 0 <= now - mark.stat().st_mtime < DAY_S:
            return False
    make_private(mark.parent)
    mark.touch(mode=0o600)
    os.utime(mark, (now, now))
    return True


def _belongings(state: Path, identifier: str) -> tuple[Path, ...]:
    return (state / "spill" / identifier, state / "notes" / identifier)


def _shares(state: Path, infos: Sequence[SessionInfo]) -> dict[str, int]:
    """Return the checkpoint size per session, in bytes, by project: the total divided by the number of sessions,
    because shared data cannot be attributed."""
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
    """Return the total size of all files below a folder; 0 if there is none."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total
