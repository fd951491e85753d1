"""Finding and killing all processes of a call, those that tried to leave it included.

A process belongs to a call by its group or session, by descent, or by a tag in its environment, which
survives `setsid` and double forks. All three are read from `/proc`; where there is none, the process
group is all that is known.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

TERM_GRACE_S = 0.2
"""Time between the request to end and the kill; short, because a person is waiting."""
_KILL_LIMIT_S = 1.5


class _Process(NamedTuple):
    parent: int
    group: int
    session: int
    alive: bool
    started: int
    """Clock ticks since boot: with the pid, it tells a process from a later one of the same number."""


class Tree:
    """The processes of one or more calls.

    `roots` are the pids of main processes, which lead their own session and group; `tag` is a byte string
    in the environment of all. What was once found stays known, whatever becomes of its parents.
    """

    def __init__(self, tag: str, roots: Iterable[int]) -> None:
        self._tag = tag.encode()
        self._roots = set(roots)
        self._known: set[tuple[int, int]] = set()
        self._beyond: set[int] = set()
        """Processes we may not signal (another user's)."""

    def living(self) -> list[int]:
        """Pids of the members that run or could run; zombies are dead."""
        table = _process_table()
        if not table:
            return [root for root in self._roots if group_alive(root)]
        members = self._members(table)
        self._known |= {(pid, table[pid].started) for pid in members}
        return [pid for pid in members if table[pid].alive and pid not in self._beyond]

    def send(self, number: signal.Signals, pids: Iterable[int]) -> None:
        """Signal the whole groups of the roots at once, then each of `pids`."""
        for root in self._roots:
            _ignoring_gone(os.killpg, root, number)
        for pid in pids:
            if not _ignoring_gone(os.kill, pid, number):
                self._beyond.add(pid)

    def _members(self, table: dict[int, _Process]) -> set[int]:
        own = table.get(os.getpid())
        since = own.started if own else 0
        members = {
            pid
            for pid, process in table.items()
            if pid in self._roots
            or process.group in self._roots
            or process.session in self._roots
            or (pid, process.started) in self._known
            or (process.started >= since and process.alive and self._is_tagged(pid))
        }
        return _with_descendants(members, table) - {os.getpid()}

    def _is_tagged(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123
                return self._tag in file.read()
        except OSError:
            return False


def _with_descendants(members: set[int], table: dict[int, _Process]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    found, left = set(members), list(members)
    while left:
        new = [child for child in children.get(left.pop(), ()) if child not in found]
        found.update(new)
        left.extend(new)
    return found


async def kill_tree(tree: Tree, grace_s: float = TERM_GRACE_S) -> bool:
    """Ask all members to end, then freeze and kill what is left; True when nothing is alive.

    Takes at most `grace_s` + 1.5 s. Frozen processes cannot fork, so the sweep catches up with those that
    breed.
    """
    if not (pids := tree.living()):
        return True
    tree.send(signal.SIGTERM, pids)
    tree.send(signal.SIGCONT, pids)
    try:
        if await _dies_within(tree, grace_s):
            return True
    except asyncio.CancelledError:  # the loop is closing: no more time for a grace
        _kill_now(tree, tree.living())
        raise
    end, pause = time.monotonic() + _KILL_LIMIT_S, 0.002
    while pids := tree.living():
        if time.monotonic() > end:
            return False
        _kill_now(tree, pids)
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    return True


def _kill_now(tree: Tree, pids: list[int]) -> None:
    tree.send(signal.SIGSTOP, pids)
    tree.send(signal.SIGKILL, pids)


async def _dies_within(tree: Tree, grace_s: float) -> bool:
    end, pause = time.monotonic() + grace_s, 0.004
    while (left := end - time.monotonic()) > 0:
        await asyncio.sleep(min(pause, left))
        if not tree.living():
            return True
        pause *= 2
    return False


def group_alive(group: int) -> bool:
    """Whether a process group still has members."""
    return _ignoring_gone(os.killpg, group, 0)


def _ignoring_gone(send: Callable[[int, int], None], pid: int, number: int) -> bool:
    try:
        send(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _process_table() -> dict[int, _Process]:
    """All processes by pid; empty where there is no `/proc`."""
    table: dict[int, _Process] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return table
    for name in names:
        if name.isdigit() and (process := _read_stat(name)):
            table[int(name)] = process
    return table


def _read_stat(pid: str) -> _Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123
            line = file.read()
        fields = line[line.rindex(b")") + 2 :].split()
        alive = fields[0] not in (b"Z", b"X")
        return _Process(int(fields[1]), int(fields[2]), int(fields[3]), alive, int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None
