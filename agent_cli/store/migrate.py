"""Records of older format versions, read as records of this one: the only place that knows old shapes.

Version 1 wrote the paths of a result (`seen`, `cwd`) in full; since version 2 those inside the session's directory
are relative to it, so that a session can move. A file is never rewritten, so one file may hold both: an absolute
path inside the directory is always made relative, whoever wrote it, and doing so twice changes nothing.
"""

import os
from collections.abc import Sequence

import msgspec

from ..protocol.messages import ToolResult
from ..protocol.records import FORMAT_VERSION, AnyRecord, Header


def migrated(records: Sequence[AnyRecord]) -> tuple[AnyRecord, ...]:
    """The same records as this version would have written them. The first one should be the header."""
    header = records[0] if records else None
    if not isinstance(header, Header):
        return tuple(records)
    if header.version != FORMAT_VERSION:
        header = msgspec.structs.replace(header, version=FORMAT_VERSION)
    cwd = header.cwd
    return (header, *(_moved(each, cwd) if isinstance(each, ToolResult) else each for each in records[1:]))


def relative(path: str, root: str) -> str:
    """An absolute path inside `root`, relative to it; any other path as it is."""
    if path == root:
        return os.curdir
    lead = root.rstrip("/") + "/"
    return path[len(lead) :] or os.curdir if path.startswith(lead) else path


def _moved(result: ToolResult, root: str) -> ToolResult:
    if not any(path.startswith("/") for path in (result.cwd, *result.seen)):
        return result
    seen = {relative(path, root): known for path, known in result.seen.items()}
    return msgspec.structs.replace(result, seen=seen, cwd=relative(result.cwd, root))
