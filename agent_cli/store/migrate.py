"""Convert records of older format versions to the current one; only this module knows old formats.

In version 1 the reader decided which messages a compaction keeps; since version 2 the record names them. Version 1
stored full paths in results (`seen`, `cwd`); since version 2 paths inside the session's directory are relative to
it, so that a session can be moved. A file is never rewritten and may mix both versions, so the conversion leaves
current records unchanged.
"""

import os
from collections.abc import Sequence

import msgspec

from agent_cli.protocol.messages import ToolResult, is_prompt
from agent_cli.protocol.records import FORMAT_VERSION, AnyRecord, CompactionSaved, Header

_NAMES_WHAT_IS_KEPT = 2


def migrate_records(records: Sequence[AnyRecord]) -> tuple[AnyRecord, ...]:
    """Return the records as this version would have written them. The first one should be the header."""
    header = records[0] if records else None
    if not isinstance(header, Header):
        return tuple(records)
    rest: Sequence[AnyRecord] = records[1:]
    if header.version < _NAMES_WHAT_IS_KEPT:
        rest = [_keeping(each, records) if isinstance(each, CompactionSaved) else each for each in rest]
    if header.version != FORMAT_VERSION:
        header = msgspec.structs.replace(header, version=FORMAT_VERSION)
    cwd = header.cwd
    return (header, *(_moved(each, cwd) if isinstance(each, ToolResult) else each for each in rest))


def _keeping(fold: CompactionSaved, records: Sequence[AnyRecord]) -> CompactionSaved:
    """Return a compaction record that names what it kept verbatim: the newest prompt before its end, together with
    all prompts of that turn and of the turn that compacted. A record that already names them is unchanged."""
    ends = [at for at, each in enumerate(records) if each.id == fold.through]
    if fold.kept or not ends:
        return fold
    humans = [r for r in records[: ends[0] + 1] if is_prompt(r)]
    turns = {fold.turn_id, humans[-1].turn_id} if humans else set()
    return msgspec.structs.replace(fold, kept=tuple(each.id for each in humans if each.turn_id in turns))


def relative(path: str, root: str) -> str:
    """Return an absolute path inside `root` relative to it; any other path unchanged."""
    if path == root:
        return os.curdir
    lead = root.rstrip("/") + "/"
    return path[len(lead) :] or os.curdir if path.startswith(lead) else path


def is_inside(path: str) -> bool:
    """Return True if a recorded path is relative and cannot leave the session's directory lexically."""
    return not path.startswith("/") and os.pardir not in path.split("/")


def _moved(result: ToolResult, root: str) -> ToolResult:
    """Return a result with relative paths, dropping those that start inside the directory and lead out of it."""
    if all(map(is_inside, (result.cwd, *result.seen))):
        return result
    seen = {relative(path, root): known for path, known in result.seen.items()}
    kept = {path: known for path, known in seen.items() if path.startswith("/") or is_inside(path)}
    cwd = relative(result.cwd, root)
    return msgspec.structs.replace(result, seen=kept, cwd=cwd if cwd.startswith("/") or is_inside(cwd) else "")
