"""Find the processes of a tool call without its supervisor, which was killed or hangs, and pause those of a
supervisor: stopped processes can change nothing.

A process belongs to a call by its group or session, by descent, or by a tag in its environment, which survives
`setsid` and double forks. All three are read from `/proc`; without it, only the process group is known.
"""

import asyncio
import os
import signal
import time
from collections.abc import Iterable

from ..helper.proc import (
    Process,
    below,
    contents,
    descendants,
    freeze_and_kill,
    group_alive,
    process_table,
    send_each,
    send_signal,
)

_STOPPED, _DEAD, _WAITING = frozenset("Tt"), frozenset("ZX"), "D"
"""Process states: stopped and traced; dead; and uninterruptible sleep, which no stop reaches until it ends."""


class Tree:
    """The processes of one tool call.

    `roots` are the pids of main processes, which lead their own session and group; `tag` is a string in the
    environment of all. A process once found stays a member even if its parents are gone.
    """

    def __init__(self, tag: str, roots: Iterable[int]) -> None:
        self._tag = tag.encode()
        self._roots = {root for root in roots if root > 0}
        self._known: set[tuple[int, int]] = set()

    def living(self) -> list[int]:
        """Return the pids of members that are running or runnable, not zombies."""
        table = process_table()
        if not table:
            return [root for root in self._roots if group_alive(root)]
        members = self._members(table)
        self._known |= {(pid, table[pid].started) for pid in members}
        return [pid for pid in members if table[pid].alive]

    def kill(self) -> bool:
        """Stop and kill all living members; return False if there were none."""
        pids = self.living()
        for root in self._roots:
            send_signal(os.killpg, root, signal.SIGKILL)
        freeze_and_kill(pids)
        return bool(pids)

    def _members(self, table: dict[int, Process]) -> set[int]:
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
        return (members | set(descendants(members, table))) - {os.getpid()}

    def _is_tagged(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123
                return self._tag in file.read()
        except OSError:
            return False


async def kill_tree(tree: Tree, limit_s: float) -> None:
    """Kill the tree until nothing is alive or the limit is reached. Stopped processes cannot fork, so the sweep
    catches up with those that multiply."""
    end, pause_s = time.monotonic() + limit_s, 0.002
    while tree.kill() and time.monotonic() < end:
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.05)


async def pause(supervisor: int, limit_s: float = 2.0) -> bool:
    """Stop every process below a supervisor; return False if some still run after `limit_s`. A process may fork
    until its stop arrives, or start another again, so only two looks in a row that find all of them stopped are
    proof. A process that died since the look before may have forked first, where nobody looked any more."""
    end = time.monotonic() + limit_s
    stood_still, known_dead = False, set[int]()
    while time.monotonic() < end:
        found = {pid: _states(pid) for pid in below(supervisor)}
        dead = {pid for pid, states in found.items() if states <= _DEAD}
        moving = {pid: states for pid, states in found.items() if not states <= _STOPPED | _DEAD}
        stands_still = not moving and dead <= known_dead
        if stands_still and stood_still:
            return True
        stood_still, known_dead = stands_still, dead
        for pid, states in moving.items():
            send_signal(os.kill, pid, signal.SIGSTOP)
            if _WAITING in states:
                resume(pid)  # perhaps in `vfork` until a child has started
        await asyncio.sleep(0.001 if moving else 0)
    return False


def resume(supervisor: int) -> None:
    """Resume every process below a supervisor."""
    send_each(below(supervisor), signal.SIGCONT)


def _states(pid: int) -> set[str]:
    """Return the states of all threads of a process; empty if it is gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return set()
    lines = (contents(f"/proc/{pid}/task/{thread}/stat") or b"" for thread in threads)
    return {line.rpartition(b") ")[2][:1].decode() or "X" for line in lines}
