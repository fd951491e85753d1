"""The processes of this machine as listed in `/proc`, and functions to signal them.

Separate because the reaper shares it: nothing here may import slow modules (`signal`, `typing` and `collections`
are).
"""

import _signal  # type: ignore[import-not-found]  # `signal` is slow to load
import os
from _collections_abc import Callable, Collection, Iterable

SWEEP_LIMIT_S = 1.5
"""Time limit of a sweep: processes that survive belong to another user or hang in the kernel."""


class Process:
    """Entry of the process table."""

    __slots__ = ("alive", "group", "parent", "session", "started")

    def __init__(self, parent: int, group: int, session: int, alive: bool, started: int) -> None:
        self.parent = parent
        self.group = group
        self.session = session
        self.alive = alive
        """False for a zombie."""
        self.started = started
        """Start time in clock ticks since boot: tells a process from a later one with the same pid."""


def process_table() -> dict[int, Process]:
    """Return all processes by pid; empty if there is no `/proc`."""
    table: dict[int, Process] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return table
    for name in names:
        if name.isdigit() and (process := _read_stat(name)):
            table[int(name)] = process
    return table


def descendants(roots: Iterable[int], table: dict[int, Process], but: Collection[int] = ()) -> list[int]:
    """Return the pids below `roots`, excluding the roots, parents first; skip `but` and the processes below
    those."""
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    given = list(roots)
    found = dict.fromkeys(given)
    left = list(given)
    for parent in left:
        new = [child for child in children.get(parent, ()) if child not in found and child not in but]
        found.update(dict.fromkeys(new))
        left.extend(new)
    return left[len(given) :]


def below(pid: int, but: Collection[int] = ()) -> list[int]:
    """Return the pids below `pid`, parents first, possibly with zombies; skip `but` and the processes below those.

    Uses the kernel's lists of children if available: their cost depends on the tree, not on the machine, which is
    fast enough to catch a program that keeps forking away.
    """
    found, seen = [pid], {pid, *but}
    for parent in found:
        children = _children(parent)
        if children is None:
            return descendants((pid,), process_table(), but)
        found.extend(children - seen)
        seen |= children
    return found[1:]


def _children(pid: int) -> set[int] | None:
    """Return the children of all threads of a process; None if the kernel does not list them."""
    found: set[int] = set()
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found if os.path.exists("/proc/self/stat") else None
    for thread in threads:
        text = contents(f"/proc/{pid}/task/{thread}/children")
        if text is None and not os.path.exists("/proc/thread-self/children"):
            return None
        found.update(map(int, (text or b"").split()))
    return found


def group_alive(group: int) -> bool:
    """Return True if a process group still has members."""
    return send_signal(os.killpg, group, 0)


def send_signal(send: Callable[[int, int], None], pid: int, number: int) -> bool:
    """Signal with `os.kill` or `os.killpg`; return False if the target is gone or not ours to signal."""
    try:
        send(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def freeze_and_kill(pids: Collection[int]) -> None:
    """Stop all processes, then kill them: a stopped process cannot fork in between."""
    send_each(pids, _signal.SIGSTOP, _signal.SIGKILL)


def freeze_and_end(pids: Collection[int]) -> None:
    """Send SIGTERM to all processes. They are stopped first, or a shell would go on to its next command once
    the current one has ended."""
    send_each(pids, _signal.SIGSTOP, _signal.SIGTERM, _signal.SIGCONT)


def send_each(pids: Collection[int], *numbers: int) -> None:
    """Send each signal to all processes, those that are gone or not ours excepted."""
    for number in numbers:
        for pid in pids:
            send_signal(os.kill, pid, number)


def _read_stat(pid: str) -> Process | None:
    line = contents(f"/proc/{pid}/stat")
    if not line:
        return None
    fields = line[line.rindex(b")") + 2 :].split()
    alive = fields[0] not in (b"Z", b"X")
    return Process(int(fields[1]), int(fields[2]), int(fields[3]), alive, int(fields[19]))


def contents(path: str) -> bytes | None:
    """Return the content of a small file; None if it is gone, as its process is then."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, 65536)
    except OSError:
        return None
    finally:
        os.close(fd)
