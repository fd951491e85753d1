"""Facts learned from servers about their models, kept across sessions: one small JSON file in the state folder.

Unlike the other stored files it is a cache. If it is unusable, the facts are learned again, so nothing here raises
and nothing waits long.
"""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from agent_cli.fs.files import file_lock, read_regular, replace_file
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.usage import LearnedLimits

KEPT_S = 30 * 86_400.0
"""Servers are updated, so older facts are determined again."""
_MOST = 500
"""Maximum number of models; the one learned about longest ago is forgotten first."""
_LARGEST_BYTES = 4_000_000
_LOCK_S = 2.0
"""Another program holds the lock for a few milliseconds, or longer on a busy machine."""


class _Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    at: float
    """Seconds since the epoch."""
    learnt: LearnedLimits = LearnedLimits()


class LearnedLimitsFile:
    """The `Memory` of the model clients. Concurrent programs do not overwrite each other's data."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self.path = path
        self._now = now

    def recall(self, key: str) -> LearnedLimits:
        """Return what is known about a model; an empty value if nothing is."""
        entry = self._read().get(key)
        return entry.learnt if entry is not None else LearnedLimits()

    def all(self) -> dict[str, LearnedLimits]:
        """Return everything known, by key."""
        return {key: entry.learnt for key, entry in self._read().items()}

    def learn(self, key: str, learned: LearnedLimits) -> None:
        """Merge facts with those already known."""
        self._keep(key, lambda before: before.merged(learned))

    def replace(self, key: str, learned: LearnedLimits) -> None:
        """Replace the known facts."""
        self._keep(key, lambda _: learned)

    def _keep(self, key: str, changed: Callable[[LearnedLimits], LearnedLimits]) -> None:
        with contextlib.suppress(OSError, UnicodeError), file_lock(self.path, _LOCK_S):
            entries = self._read()
            before = entries.pop(key, None)
            entries[key] = _Entry(self._now(), changed(before.learnt if before else LearnedLimits()))
            self._write(dict(sorted(entries.items(), key=lambda item: item[1].at)[-_MOST:]))

    def forget(self, query: str) -> list[str]:
        """Remove the facts about models whose key contains `query`; return their keys."""
        dropped: list[str] = []
        with contextlib.suppress(OSError, UnicodeError), file_lock(self.path, _LOCK_S):
            entries = self._read()
            found = [key for key in entries if query in key]
            self._write({key: entry for key, entry in entries.items() if key not in found})
            dropped = found
        return dropped

    def _write(self, entries: dict[str, _Entry]) -> None:
        lines = ",\n".join(f"{_text(key)}:{_text(entry)}" for key, entry in entries.items())
        replace_file(self.path, f"{{\n{lines}\n}}\n".encode())

    def _read(self) -> dict[str, _Entry]:
        """Return the entries that are readable and not too old."""
        try:
            raw = decode_json(read_regular(self.path, _LARGEST_BYTES), type=dict[str, msgspec.Raw])
        except (OSError, msgspec.DecodeError):
            return {}
        entries: dict[str, _Entry] = {}
        now = self._now()
        for key, text in raw.items():
            with contextlib.suppress(msgspec.DecodeError):
                entry = decode_json(text, type=_Entry)
                if now - KEPT_S < entry.at <= now + KEPT_S:
                    entries[key] = msgspec.structs.replace(entry, learnt=entry.learnt.sound())
        return entries


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
