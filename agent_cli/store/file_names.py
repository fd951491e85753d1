"""Names of session files, and the facts a directory listing gives about them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from agent_cli.protocol.lazy_regex import lazy_regex

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
GIVEN_ID = lazy_regex(rf"[0-9a-f]{{8}}|{_UUID}")
"""Allowed form of an id given by a caller: our own form, or a UUID."""
NAME = lazy_regex(rf"(\d{{8}}T\d{{6}}Z)-({GIVEN_ID.pattern})\.json")
"""Name of a session file: start time and id."""
ID = lazy_regex(r"[0-9a-z]{1,32}")
"""Allowed form of an id in a file with another name; strict, because ids become folder names."""
_LATEST_NS = (1 << 63) - 1
"""The year 2262."""
Progress = Callable[[int, int], None]
"""Called with the number of sessions read and the total."""


class SessionFileStat(NamedTuple):
    """A session file as found in a directory listing."""

    file: str
    """Path relative to the folder of all sessions."""
    size: int
    mtime_ns: int


def id_in(path: Path) -> str:
    """Return the id in the name of a session file; for another file, the part after the last hyphen."""
    named = NAME.fullmatch(path.name)
    return named.group(2) if named else path.stem.rpartition("-")[2]


def changed_ns(status: os.stat_result) -> int:
    """Return when a file was last changed, in nanoseconds since the epoch. A damaged file system or clock may give
    a time that neither the index nor a calendar can hold: it counts as the nearest that both can."""
    return min(max(status.st_mtime_ns, 0), _LATEST_NS)


def seconds(nanoseconds: int) -> float:
    """Convert a time in nanoseconds to seconds exactly as `os.stat` does."""
    return nanoseconds // 10**9 + 1e-9 * (nanoseconds % 10**9)
