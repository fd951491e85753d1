"""Files that a worktree's own ignore files keep out of its patch. A separate module, because only the judging of
an attempt needs it: whoever may write an ignore file could hide a file with it."""

import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from agent_cli.fs.files import read_regular
from agent_cli.fs.which import RunProgram

from ..checkpoints.restore import printable
from .store import SnapshotStore, index_of
from .worktree import Worktree

_LARGEST_IGNORE_FILE = 10_000_000


async def concealed_files(
    worktree: Worktree, run: RunProgram, is_wanted: Callable[[str], bool]
) -> tuple[str, ...]:
    """Return the wanted files that git ignores only because an ignore file was added or changed. Caches that
    ignore themselves, such as `.pytest_cache`, do not count.

    Raises:
        WorktreeError: the worktree cannot be read.
    """
    store, top = SnapshotStore(worktree.store, worktree.place, run), Path(worktree.path)
    index = index_of(store.folder, worktree.name)
    names = set(await store.ignored(top, index)).difference(worktree.carried)
    wanted = [name for name in names if is_wanted(printable(name))]
    if not wanted:
        return ()
    found = await store.ignored_by(wanted, top, index)
    blobs = await store.blobs_at(worktree.base, [source for source, _ in found.values()])
    base = {
        blob: text.decode("utf-8", "replace").splitlines()
        for blob, text in (await store.contents(blobs.values())).items()
    }
    return tuple(
        sorted(
            printable(name)
            for name, (source, pattern) in found.items()
            if not _is_own(source) and not _is_of_base(pattern, base.get(blobs.get(source, ""), []), top / source)
        )
    )


def _is_own(source: str) -> bool:
    """Return True for the store's own list, and for an ignore file that a hidden folder brings for itself."""
    return os.path.isabs(source) or PurePosixPath(source).parent.name.startswith(".")


def _is_of_base(pattern: str, base: list[str], file: Path) -> bool:
    """Return True if a pattern decided in the base too. Where a line there takes files out, the file must be as it
    was."""
    if not any(line.startswith("!") for line in base):
        return pattern in base
    try:
        return read_regular(file, _LARGEST_IGNORE_FILE).decode("utf-8", "replace").splitlines() == base
    except OSError:
        return False
