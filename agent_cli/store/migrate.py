"""Records of older format versions, read as records of this one: the only place that knows old shapes.

Version 1 left it to the reader which messages a fold keeps; since version 2 the fold names them. Version 1 wrote
the paths of a result (`seen`, `cwd`) in full; since version 2 those inside the session's directory are relative to
it, so that a session can move. A file is never rewritten, so one file may hold both: what is done here does
nothing to records that are as they should be.
"""

import os
from collections.abc import Sequence

import msgspec

from agent_cli.protocol.messages import ToolResult, UserMessage
from agent_cli.protocol.records import FORMAT_VERSION, AnyRecord, CompactionSaved, Header

_NAMES_WHAT_IS_KEPT = 2


def migrate_records(records: Sequence[AnyRecord]) -> tuple[AnyRecord, ...]:
    """Return the same records as this version would have written them. The first one should be the header."""
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
    """Return a fold that names what it kept word for word: the newest prompt before its end, and with it all of
    its turn and of the turn that folded. One that names it already stays as it is."""
    ends = [at for at, each in enumerate(records) if each.id == fold.through]
    if fold.kept or not ends:
        return fold
    humans = [r for r in records[: ends[0] + 1] if isinstance(r, UserMessage) and r.origin == "human"]
    turns = {fold.turn_id, humans[-1].turn_id} if humans else set()
    return msgspec.structs.replace(fold, kept=tuple(each.id for each in humans if each.turn_id in turns))


def relative(path: str, root: str) -> str:
    """Return an absolute path inside `root`, relative to it; any other path as it is."""
    if path == root:
        return os.curdir
    lead = root.rstrip("/") + "/"
    return path[len(lead) :] or os.curdir if path.startswith(lead) else path


def is_inside(path: str) -> bool:
    """Return whether a path of a record is relative and stays inside the session's directory whatever lies
    there."""
    return not path.startswith("/") and os.pardir not in path.split("/")


def _moved(result: ToolResult, root: str) -> ToolResult:
    """Return a result with relative paths, and without those that claim to be inside and lead out."""
    if all(map(is_inside, (result.cwd, *result.seen))):
        return result
    seen = {relative(path, root): known for path, known in result.seen.items()}
    kept = {path: known for path, known in seen.items() if path.startswith("/") or is_inside(path)}
    cwd = relative(result.cwd, root)
    return msgspec.structs.replace(result, seen=kept, cwd=cwd if cwd.startswith("/") or is_inside(cwd) else "")
