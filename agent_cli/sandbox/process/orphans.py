"""Find the processes of a tool call without its supervisor, which was killed or hangs.

A process belongs to a call by its group or session, by descent, or by a tag in its environment, which survives
`setsid` and double forks. All three are read from `/proc`; without it, only the process group is known.
"""

import asyncio
import os
import signal
import time
from collections.abc import Iterable

from ..helper.proc import Process, descendants, freeze_and_kill, group_alive, process_table, send_signal


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
