"""Copy files that git does not track into a worktree: those named by `.worktreeinclude` or a task, and access
lists. Links are neither copied nor followed."""

import asyncio
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from agent_cli.fs.files import open_regular, read_regular
from agent_cli.fs.nofollow import dir_entry

from ..agentignore import NAME as ACCESS_LIST
from ..git.gitignore import Pattern, deciding, parse
from .store import SnapshotStore, index_of
from .worktree import WorktreeError

INCLUDE_FILE = ".worktreeinclude"
"""File in the main checkout with patterns of ignored files that worktrees get."""
_LARGEST_FILE = 200_000
_MOST_CARRIED = 10_000
_MOST_PATTERNS = 1_000


async def carry(
    store: SnapshotStore, top: Path, path: Path, users_index: Path, copied: Sequence[str] = ()
) -> tuple[str, ...]:
    """Copy the ignored files that `.worktreeinclude` names, the untracked files that `copied` names, and access
    lists ignored by git, so that what they close is closed in the worktree too. Return the copied files. Files
    such as `.env` are copied only if a pattern contains that name.

    Args:
        store: the store of the worktree.
        top: the main checkout.
        path: the worktree, which already has its files.
        users_index: the index of the main checkout.
        copied: patterns as in an ignore file.

    Raises:
        WorktreeError: there are too many files, or an access list cannot be copied.
    """
    wanted = await _included(store, top, users_index)
    if copied:
        wanted += _without_secrets(await _matching(store, top, users_index, copied, ignored=False), copied)
    if len(wanted) > _MOST_CARRIED:
        raise WorktreeError(f"{len(wanted):,} files are to be copied; at most {_MOST_CARRIED:,} are")
    done = [each for each in dict.fromkeys(wanted) if await asyncio.to_thread(_copied, top, path, each)]
    return (*done, *await _access_lists(store, top, path, users_index))


async def _included(store: SnapshotStore, top: Path, users_index: Path) -> list[str]:
    """Return the ignored files that `.worktreeinclude` names. The file comes with the repository, so it is matched
    here, in linear time: git could be kept busy for minutes."""
    try:
        text = read_regular(top / INCLUDE_FILE, _LARGEST_FILE).decode("utf-8", "replace")
    except OSError:
        return []
    try:
        patterns = parse(text)
    except ValueError as error:
        raise WorktreeError(f"{INCLUDE_FILE}: {error}") from error
    if len(patterns) > _MOST_PATTERNS:
        raise WorktreeError(f"{INCLUDE_FILE} has {len(patterns):,} patterns; at most {_MOST_PATTERNS:,} are read")
    found = await store.ignored(top, users_index)
    return _without_secrets(await asyncio.to_thread(_chosen, patterns, found), text.split("\n"))


def _chosen(patterns: tuple[Pattern, ...], found: Iterable[str]) -> list[str]:
    """Return the files that patterns name, themselves or by a folder above them."""
    folders: dict[str, Pattern | None] = {}
    chosen = []
    for each in found:
        names = each.split("/")
        for depth in range(1, len(names)):
            folder = "/".join(names[:depth])
            if folder not in folders:
                folders[folder] = deciding(patterns, names[:depth], True)
            if _names(folders[folder]):
                chosen.append(each)
                break
        else:
            if _names(deciding(patterns, names, False)):
                chosen.append(each)
    return chosen


def _names(pattern: Pattern | None) -> bool:
    return pattern is not None and not pattern.opens


def _without_secrets(found: Iterable[str], patterns: Iterable[str]) -> list[str]:
    if any(".env" in line and not line.startswith(("!", "#")) for line in patterns):
        return list(found)
    return [each for each in found if not os.path.basename(each).startswith(".env")]


async def _access_lists(store: SnapshotStore, top: Path, path: Path, users_index: Path) -> tuple[str, ...]:
    found = await _matching(store, top, users_index, (ACCESS_LIST,), ignored=True)
    missing = [each for each in found if not (path / each).exists()]
    if lost := [each for each in missing if not await asyncio.to_thread(_copied, top, path, each)]:
        raise WorktreeError(f"the access list {lost[0]} cannot be copied")
    return tuple(missing)


async def _matching(
    store: SnapshotStore, top: Path, users_index: Path, patterns: Sequence[str], *, ignored: bool
) -> list[str]:
    file = index_of(store.folder, f".patterns-{os.urandom(6).hex()}")
    file.write_text("".join(f"{each}\n" for each in patterns), encoding="utf-8", errors="surrogateescape")
    try:
        return await store.untracked(top, users_index, file, ignored=ignored)
    finally:
        file.unlink(missing_ok=True)


def _copied(top: Path, path: Path, name: str) -> bool:
    """Copy a file with its mode. A link is neither copied nor followed."""
    try:
        with dir_entry(os.path.join(top, name)) as at:
            source = os.fdopen(open_regular(at.name, dir_fd=at.folder), "rb")
        with source, dir_entry(os.path.join(path, name), []) as at:
            mode = os.fstat(source.fileno()).st_mode & 0o777
            with os.fdopen(at.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
                os.fchmod(target.fileno(), mode)
    except OSError:
        return False
    return True
