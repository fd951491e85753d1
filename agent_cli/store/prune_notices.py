"""Announcements of sessions about to be deleted by automatic pruning, one day ahead: `prune.json` in the state
folder. Nothing is deleted before the user could be notified, however long the program was not started."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent_cli.fs.files import make_private, read_regular, replace_file
from agent_cli.protocol.json_text import decode_json

DAY_S = 86_400.0
_MOST_BYTES = 4_000_000


class PruneNotice(msgspec.Struct, frozen=True):
    """Sessions that are about to be deleted."""

    why: str = ""
    """The reason, such as `older than 30 days`."""
    ids: dict[str, float] = {}
    """When the user was notified, by session id, in seconds since the epoch; 0 before that."""

    def ripe(self, now: float) -> frozenset[str]:
        """Return the ids of which the user was notified at least a day ago."""
        return frozenset(name for name, told in self.ids.items() if 0 < told <= now - DAY_S)


def read_announced(state: Path, now: float) -> PruneNotice:
    """Return the announcement; empty if the file is missing, damaged, or from the future: then the clock was
    changed, and everything is announced again."""
    path = _path(state)
    try:
        if path.stat().st_mtime > now + 1:
            return PruneNotice()
        return decode_json(read_regular(path, _MOST_BYTES), type=PruneNotice)
    except (OSError, msgspec.DecodeError):
        return PruneNotice()


def announce(state: Path, why: str, ids: Mapping[str, float], now: float) -> None:
    """Replace the announcement.

    Raises:
        OSError: it cannot be written; the old one is unchanged.
    """
    make_private(state)
    replace_file(_path(state), msgspec.json.encode(PruneNotice(why, dict(ids))))
    os.utime(_path(state), (now, now))


def due_notice(state: Path, now: float | None = None) -> str:
    """Return the notice a front end shows at startup, once for each session: those to be deleted from tomorrow.
    Empty if there is nothing to announce. Never raises; sessions whose notice could not be recorded are not
    deleted."""
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
