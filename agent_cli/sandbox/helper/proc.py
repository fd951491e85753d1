"""The processes of this machine as `/proc` shows them, and the killing of those one asks for.

Apart, because the reaper shares it: nothing here may import what is slow to load (`signal`, `typing` and
`collections` are).
"""

import _signal  # type: ignore[import-not-found]  # `signal` is slow to load
import os
from _collections_abc import Callable, Collection, Iterable

SWEEP_LIMIT_S = 1.5
"""A sweep gives up after that long: what is left belongs to another user or hangs in the kernel."""


class Process:
    """One line of the table."""

    __slots__ = ("alive", "group", "parent", "session", "started")

    def __init__(self, parent: int, group: int, session: int, alive: bool, started: int) -> None:
        self.parent = parent
        self.group = group
        self.session = session
        self.alive = alive
        """Not a zombie."""
        self.started = started
        """Clock ticks since boot: with the pid, it tells a process from a later one of the same number."""


def process_table() -> dict[int, Process]:
    """Return all processes by pid; empty where there is no `/proc`."""
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
    """Return the pids below `roots`, without these, parents first; without `but` and what is below that."""
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
    """Return the pids below `pid`, parents first, zombies perhaps among them; without `but` and what is below
    that.

    From the kernel's lists of children where it keeps them: they cost what the tree costs, not what the
    machine does, and that is quick enough to catch a program that flees from process to process.
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
    """Return the children of all threads of a process; None where the kernel does not say."""
    found: set[int] = set()
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found if os.path.exists("/proc/self/stat") else None
    for thread in threads:
        text = _contents(f"/proc/{pid}/task/{thread}/children")
        if text is None and not os.path.exists("/proc/thread-self/children"):
            return None
        found.update(map(int, (text or b"").split()))
    return found


def group_alive(group: int) -> bool:
    """Return whether a process group still has members."""
    return send_signal(os.killpg, group, 0)


def send_signal(send: Callable[[int, int], None], pid: int, number: int) -> bool:
    """Signal with `os.kill` or `os.killpg`; False when it is gone or not ours to signal."""
    try:
        send(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def freeze_and_kill(pids: Collection[int]) -> None:
    """Stop them all, then kill them all: what is frozen cannot fork meanwhile."""
    _send_each(pids, _signal.SIGSTOP, _signal.SIGKILL)


def freeze_and_end(pids: Collection[int]) -> None:
    """Ask them all to end. They are stopped meanwhile, or a shell would go on to its next command because
    the present one has ended already."""
    _send_each(pids, _signal.SIGSTOP, _signal.SIGTERM, _signal.SIGCONT)


def _send_each(pids: Collection[int], *numbers: int) -> None:
    for number in numbers:
        for pid in pids:
            send_signal(os.kill, pid, number)


def _read_stat(pid: str) -> Process | None:
    line = _contents(f"/proc/{pid}/stat")
    if not line:
        return None
    fields = line[line.rindex(b")") + 2 :].split()
    alive = fields[0] not in (b"Z", b"X")
    return Process(int(fields[1]), int(fields[2]), int(fields[3]), alive, int(fields[19]))


def _contents(path: str) -> bytes | None:
    """Of a small file; None when it is gone, as its process is then."""
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
