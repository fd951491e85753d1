"""What the quiet pruning is about to delete, told a day before: `prune.json` in the state folder. Nothing goes
that its user could not have been told of, however long the program was not started.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent_cli.fs.files import make_private, read_regular, replace_file

DAY_S = 86_400.0
_MOST_BYTES = 4_000_000


class PruneNotice(msgspec.Struct, frozen=True):
    """Sessions that are to go."""

    why: str = ""
    """Such as `older than 30 days`."""
    ids: dict[str, float] = {}
    """Id → when the user was told, in seconds since the epoch; 0 while that has not been."""

    def ripe(self, now: float) -> frozenset[str]:
        """Return those of which the user was told a day ago or more."""
        return frozenset(name for name, told in self.ids.items() if 0 < told <= now - DAY_S)


def read_announced(state: Path, now: float) -> PruneNotice:
    """Return what was announced; nothing where the file is missing, damaged, or from the future: then the clock
    was set, and all is told anew."""
    path = _path(state)
    try:
        if path.stat().st_mtime > now + 1:
            return PruneNotice()
        return msgspec.json.decode(read_regular(path, _MOST_BYTES), type=PruneNotice)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return PruneNotice()


def announce(state: Path, why: str, ids: Mapping[str, float], now: float) -> None:
    """Keep what is to go, in place of what was to go before.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    make_private(state)
    replace_file(_path(state), msgspec.json.encode(PruneNotice(why, dict(ids))))
    os.utime(_path(state), (now, now))


def due_notice(state: Path, now: float | None = None) -> str:
    """Return what a front end says at its start, once for each session: those that are to go from tomorrow on.
    Empty when there is nothing to tell. Never raises; what could not be noted as told is not deleted."""
    now = time.time() if now is None else now
    before = read_announced(state, now)
    new = [name for name, told in before.ids.items() if not 0 < told <= now]
    if not new:
        return ""
    try:
        announce(state, before.why, {**before.ids, **dict.fromkeys(new, now)}, now)
    except OSError:
        return ""
    count = "1 session" if len(new) == 1 else f"{len(new)} sessions"
    return (
        f"{count} {before.why} will be deleted tomorrow: `agent sessions prune --dry-run` shows what is old; "
        "`agent sessions rename ID NAME` keeps one"
    )


def _path(state: Path) -> Path:
    return state / "prune.json"
