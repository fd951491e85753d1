"""When the agent was changing something. What changed during a turn at another time, somebody else changed: the
user in an editor, another session, a program that watches files. Undo leaves that alone.

Files are told apart by the time of their last change, which the kernel sets and nobody can set back. If the agent
and somebody else have changed a file, the last one counts; what is deleted has no time and counts as the agent's.
A file that came with a renamed folder keeps its time, so that of the folder counts.
"""

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agent_cli.protocol.messages import FileChange

_CLOCK_S = 0.02
"""Seconds by which file times may differ from the clock."""
_COARSE_S = 2.0
"""The same for file systems that store whole seconds."""
_MOST_FOREIGN = 5_000
"""If more files changed at other times, such as by a checkout of the user, no file is told apart."""
JobsUntil = Callable[[float], float]
"""When the last job that was used since a time ended; infinity while one runs. Both are monotonic times."""


class EffectTimes:
    """The times of the effects of one turn. A clock that is set during an effect gives it two times."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """Create a record without effects. `clock` is the clock that stamps files."""
        self._clock = clock
        self._past: list[tuple[float, float]] = []
        self._since: tuple[float, float] | None = None
        """Start of the effects that go on, by the clock and by one that is never set; None if there is none."""
        self._running = 0
        self._begun = self._now()
        """Start of the turn; only jobs that it has used go on with its effects."""
        self._ended = self._begun[1]
        """End of the last effect."""
        self._jobs: list[JobsUntil] = []

    def forget(self) -> None:
        """Forget earlier turns with their jobs, when a turn begins."""
        self._past.clear()
        self._jobs.clear()
        self._begun = self._now()
        self._since = self._begun if self._running else None

    @contextmanager
    def effect(self, jobs_until: JobsUntil | None = None) -> Iterator[None]:
        """Count the time of the block as an effect, and the time after it while jobs of the turn run."""
        self._settle()
        self._running += 1
        self._since = self._since or self._now()
        try:
            yield
        finally:
            self._running -= 1
            self._ended = time.monotonic()
            if jobs_until is not None and jobs_until not in self._jobs:
                self._jobs.append(jobs_until)
            self._settle()

    def foreign(self, root: Path, changes: Sequence[FileChange]) -> tuple[str, ...]:
        """Return the files that somebody else changed last, of those that changed during a turn; none where the
        times of files are not those of our clock."""
        self._settle()
        found = [change.path for change in changes if change.kind != "deleted" and not self._is_own(root, change)]
        return tuple(found) if len(found) <= _MOST_FOREIGN and found and _are_local(root) else ()

    def _now(self) -> tuple[float, float]:
        return self._clock(), time.monotonic()

    def _settle(self) -> None:
        """Note the end of the effects if none goes on, nor a job."""
        if self._since is None or self._running:
            return
        until = max([self._ended, *(jobs_until(self._begun[1]) for jobs_until in self._jobs)])
        if until < math.inf:
            self._past += self._spans(self._since, until)
            self._since = None

    def _spans(self, since: tuple[float, float], until: float) -> list[tuple[float, float]]:
        """Return the times by the clock between a start and an end on the monotonic clock."""
        now, now_monotonic = self._now()
        start, end, passed_s = since[0], now - (now_monotonic - until), until - since[1]
        if end - start >= passed_s - _CLOCK_S:
            return [(start, end)]
        return [(start, start + passed_s), (end - passed_s, end)]  # the clock was set back meanwhile

    def _is_own(self, root: Path, change: FileChange) -> bool:
        if change.path.endswith("/"):
            return True
        try:
            changed_ns = os.lstat(root / change.path).st_ctime_ns
            if self._is_in_effect(changed_ns):
                return True
            if changed_ns / 1e9 >= self._begun[0] - _CLOCK_S:
                return False
            folders = [root / folder for folder in Path(change.path).parents[:-1]]
            return any(self._is_in_effect(os.lstat(folder).st_ctime_ns) for folder in folders)
        except (OSError, ValueError):  # it is gone, or its name cannot be shown
            return True

    def _is_in_effect(self, changed_ns: int) -> bool:
        margin_s = _CLOCK_S if changed_ns % 1_000_000_000 else _COARSE_S
        changed_s = changed_ns / 1e9
        spans = self._past + (self._spans(self._since, time.monotonic()) if self._since else [])
        return any(start - margin_s <= changed_s <= end + margin_s for start, end in spans)


_LOCAL = frozenset(
    ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "tmpfs", "ramfs", "overlay")
)
_ELSEWHERE = ("/Volumes/", "/Network/")
"""Where macOS mounts the disks of others."""


def _are_local(folder: str | Path) -> bool:
    """Return True if the clock of this machine stamps the files of a folder, and not that of a server."""
    real = os.path.realpath(folder)
    if sys.platform == "darwin":
        return not real.startswith(_ELSEWHERE)
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            mounts = [line.split() for line in file]
    except OSError:
        return False
    kinds = {words[4]: words[words.index("-", 6) + 1] for words in mounts}  # of several at a place the last counts
    while real not in kinds and real != "/":  # a name with a space is escaped there: then the folder above counts
        real = os.path.dirname(real)
    return kinds.get(real, "") in _LOCAL
