"""What session files are called, and what a folder's listing tells of them."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from agent_cli.protocol.lazy_regex import lazy_regex

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
GIVEN_ID = lazy_regex(rf"[0-9a-f]{{8}}|{_UUID}")
"""What an id may be that is given from outside: one of our own form, or a UUID."""
NAME = lazy_regex(rf"(\d{{8}}T\d{{6}}Z)-({GIVEN_ID.pattern})\.json")
"""How a session file is called: when it began, and its id."""
ID = lazy_regex(r"[0-9a-z]{1,32}")
"""What an id may be in a file with another name: it names folders, so it is never anything else."""
Progress = Callable[[int, int], None]
"""Called with how many sessions of how many have been read."""


class SessionFileStat(NamedTuple):
    """One session file as a folder's listing gives it."""

    file: str
    """Relative to the folder of all sessions."""
    size: int
    mtime_ns: int


def id_in(path: Path) -> str:
    """Return the id that stands in the name of a session file; of another file, what is behind the last hyphen."""
    named = NAME.fullmatch(path.name)
    return named.group(2) if named else path.stem.rpartition("-")[2]


def seconds(nanoseconds: int) -> float:
    """Return a file's time as `os.stat` gives it in seconds, to the last bit."""
    return nanoseconds // 10**9 + 1e-9 * (nanoseconds % 10**9)
