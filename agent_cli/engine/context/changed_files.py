"""Find the files that others have changed although the model has read or written them."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from agent_cli.fs.files import read_regular
from agent_cli.protocol.messages import ToolResult
from agent_cli.protocol.records import AnyRecord, TurnEnded
from agent_cli.protocol.sanitize import quotable
from agent_cli.session.session import Session
from agent_cli.tools.kit.base import ToolContext
from agent_cli.tools.kit.output import first_of
from agent_cli.workspace.files.reader import content_hash

_MAX_BYTES = 64_000_000
"""Tools write no larger files: a file that is larger now was changed by others."""
_MOST_FILES, _MOST_NAMED = 200, 20
_MAX_KNOWN_BYTES = 1_000_000
"""Larger files are not compared before a prompt, which waits for it; a log that grows is no news either."""


def changed_files(session: Session, context: ToolContext) -> Mapping[str, str]:
    """Return the fact that names the known files that others have changed since the last turn; empty if there are
    none. Only the files that were read or written last are examined."""
    ends = [each.time for each in session.records if isinstance(each, TurnEnded)]
    if not ends:
        return {}
    known = {path: hash for path, hash in list(context.seen.items())[-_MOST_FILES:] if hash}
    small = [path for path in known if _size_bytes(path) <= _MAX_KNOWN_BYTES]
    found = changed_by_others(context.workspace.root, small, known, ends[-1])
    if not found:
        return {}
    names = first_of([quotable(context.workspace.relative(path)) for path in found], _MOST_NAMED)
    return {"Changed files": f"{names}; by the user or another program, after your turn {len(ends)}"}


def last_seen(records: Iterable[AnyRecord]) -> dict[str, str]:
    """Return file → hash of its content when a tool last read or wrote it; paths are those of the records."""
    found: dict[str, str] = {}
    for record in records:
        if isinstance(record, ToolResult):
            found.update(record.seen)
    return found


def changed_by_others(
    root: Path, paths: Iterable[str], seen: Mapping[str, str], until_s: float = 0.0
) -> tuple[str, ...]:
    """Return the files that somebody else has changed since the tools last read or wrote them.

    Args:
        root: the folder to which paths refer.
        paths: the files.
        seen: file → hash, from `last_seen`; files that are not in it are left out.
        until_s: changes before this time (seconds since the epoch) count as the agent's.
    """
    return tuple(path for path in paths if path in seen and _differs(root / path, seen[path], until_s))


def _differs(path: Path, expected: str, until_s: float) -> bool:
    try:
        return os.lstat(path).st_ctime >= until_s and content_hash(read_regular(path, _MAX_BYTES + 1)) != expected
    except OSError:  # deleted, or no file any more
        return False


def _size_bytes(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:  # deleted since
        return 0
