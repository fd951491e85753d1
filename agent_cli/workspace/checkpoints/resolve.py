"""Resolve files that an undo did not change because somebody else had changed them, or could not write: keep the
file, restore the checkpoint's version, or merge both. The current content must be saved in a checkpoint first."""

import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path

from agent_cli.fs.nofollow import dir_entry
from agent_cli.protocol.events import Conflict, RestoreReport
from agent_cli.protocol.messages import FileChange
from agent_cli.protocol.operations import Choice

from ..editing.three_way import merge_texts
from .restore import LINK, Change, Entry, blob_hash, kind_of_change, present, restore, write_entry

_Contents = Callable[[Collection[str]], Awaitable[Mapping[str, bytes]]]
_UNSAVED = "its present content could not be saved first"
_NO_MERGE = "it cannot be merged: keep it, or take the old one"
_OVERLAP = "both sides changed the same lines"


async def decide(
    root: Path,
    changes: Mapping[str, Change],
    choice: Choice,
    saved: Mapping[str, Entry],
    contents: _Contents,
    shown: Callable[[str], str],
) -> RestoreReport:
    """Carry out a choice for some paths. `saved` is their state in a checkpoint just taken, `contents` returns
    blobs."""
    restored: list[FileChange] = []
    conflicts: list[Conflict] = []
    for path, change in sorted(changes.items()):
        if choice == "mine":
            continue
        try:
            mine, data = present(root, path)
            if saved.get(path, Entry()) != mine:
                reason: str | None = _UNSAVED
            elif choice == "old" or not change.reason:
                reason = await _take(root, path, mine, change.wanted, contents)
            else:
                reason = await _merge(root, path, (mine, data), change, contents)
        except OSError as error:
            reason = error.strerror or str(error)
        if reason:
            conflicts.append(Conflict(shown(path), reason))
        else:
            after = change.wanted if choice == "old" or not change.reason else mine
            restored.append(FileChange(shown(path), kind_of_change(mine, after)))
    return RestoreReport(tuple(restored), tuple(conflicts))


async def _take(root: Path, path: str, mine: Entry, wanted: Entry, contents: _Contents) -> str | None:
    blobs = await contents([wanted.blob] if wanted.blob else [])
    report = restore(root, {path: (mine, wanted)}, blobs.__getitem__)
    return report.conflicts[0].reason if report.conflicts else None


async def _merge(
    root: Path, path: str, now: tuple[Entry, bytes], change: Change, contents: _Contents
) -> str | None:
    mine, data = now
    sides = (mine, change.base, change.wanted)
    if not all(each.blob and each.kind != LINK for each in sides):
        return _NO_MERGE
    blobs = await contents([change.base.blob, change.wanted.blob])
    try:
        texts = [each.decode() for each in (blobs[change.base.blob], data, blobs[change.wanted.blob])]
    except UnicodeDecodeError:
        return _NO_MERGE
    if any("\0" in text for text in texts):
        return _NO_MERGE
    text = merge_texts(*texts)
    if text is None:
        return _OVERLAP
    mode = change.wanted.mode if mine.mode == change.base.mode else mine.mode
    new = text.encode()
    with dir_entry(os.path.join(os.path.realpath(root), path)) as at:
        write_entry(at, Entry(blob_hash(new), "100755" if mode & 0o100 else "100644", mode), new)
    return None
