"""List worktrees with size, age and why they are kept, and remove the oldest removable ones."""

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from agent_cli.fs.which import RunProgram
from agent_cli.protocol.paths import is_inside

from .remove import remove, why_it_stays
from .worktree import Worktree, WorktreeError, private_git, record_of, this_process, worktrees

_BLOCK = 512


class WorktreeInfo(msgspec.Struct, frozen=True):
    """A worktree, or a folder next to worktrees that this program did not create."""

    name: str
    path: str
    root: str
    """The repository or folder it was made from; empty if unknown."""
    size_bytes: int
    """Disk usage, including its private git data."""
    used: float
    """Time when it was last created, saved or merged, in seconds since the epoch."""
    stays: str
    """Why it is kept; empty if it may be removed."""
    is_in_use: bool = False
    """True if its process is alive."""


class Cleaned(msgspec.Struct, frozen=True):
    """Result of a clean-up."""

    removed: tuple[WorktreeInfo, ...]
    """Removed worktrees; with `dry_run`, those that would be removed."""
    left: tuple[WorktreeInfo, ...]

    @property
    def left_bytes(self) -> int:
        """Disk usage of the remaining worktrees."""
        return sum(each.size_bytes for each in self.left)


async def list_worktrees(folder: Path, run: RunProgram) -> tuple[WorktreeInfo, ...]:
    """Return the worktrees below the folder passed to `create`, the oldest first. Those of this process count as
    not in use."""
    known, standing = worktrees(folder), await asyncio.to_thread(where_processes_stand)
    found = [await _info(each, run, standing) for each in known]
    found += [await asyncio.to_thread(_foreign, path) for path in _unknown(folder, known)]
    return tuple(sorted(found, key=lambda each: each.used))


async def clean_worktrees(folder: Path, run: RunProgram, *, keep_bytes: int = 0, dry_run: bool = False) -> Cleaned:
    """Remove worktrees, oldest first, until the others use at most `keep_bytes`. Worktrees with unsaved and
    unmerged changes, those whose process is alive, and folders not created by this program are kept."""
    infos = await list_worktrees(folder, run)
    total = sum(each.size_bytes for each in infos)
    removed, left = [], []
    known = {each.path: each for each in worktrees(folder)}
    for info in infos:
        stays = info.stays
        if not stays and total > keep_bytes and not dry_run:
            try:
                await remove(known[info.path], run)
            except (WorktreeError, OSError) as error:
                stays = str(error)
        if stays or total <= keep_bytes:
            left.append(msgspec.structs.replace(info, stays=stays))
        else:
            removed.append(info)
            total -= info.size_bytes
    return Cleaned(tuple(removed), tuple(left))


async def _info(worktree: Worktree, run: RunProgram, standing: Mapping[int, str]) -> WorktreeInfo:
    path = Path(worktree.path)
    in_it = [pid for pid, folder in standing.items() if is_inside(folder, (worktree.path,))]
    if worktree.owner != this_process() and worktree.owner.is_alive():
        in_it.insert(0, worktree.owner.pid)
    stays = f"process {in_it[0]} is working in it" if in_it else await why_it_stays(worktree, run)
    return WorktreeInfo(
        name=worktree.name,
        path=worktree.path,
        root=worktree.root,
        size_bytes=await asyncio.to_thread(size_bytes, path, private_git(path)),
        used=_changed(record_of(path)),
        stays=stays,
        is_in_use=bool(in_it),
    )


def where_processes_stand() -> dict[int, str]:
    """Return pid → working directory, as far as the system tells. A session resumed in a worktree did not create
    it, and a shell may be running in it."""
    found = {}
    with contextlib.suppress(OSError):
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                found[int(name)] = os.readlink(f"/proc/{name}/cwd")
    return found


def _unknown(folder: Path, known: tuple[Worktree, ...]) -> Iterator[Path]:
    """Yield folders next to the worktrees that have no record and do not belong to one."""
    ours = {path for each in known for path in (Path(each.path), private_git(Path(each.path)))}
    for store in sorted(folder.glob("*/.store")):
        for path in sorted(store.parent.iterdir()):
            being_made = store / f"{path.name.removesuffix('.git')}.draft"
            if path != store and path not in ours and path.is_dir() and not being_made.exists():
                yield path


def _foreign(path: Path) -> WorktreeInfo:
    stays = "agent has not made it, or its record is lost"
    return WorktreeInfo(path.name, str(path), "", size_bytes(path), _changed(path), stays)


def size_bytes(*folders: Path) -> int:
    """Return the disk usage of folders, without following links."""
    total, left = 0, [os.fspath(each) for each in folders]
    while left:
        with contextlib.suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
    return total


def _changed(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.lstat().st_mtime
    return 0.0
