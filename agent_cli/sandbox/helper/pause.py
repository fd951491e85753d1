"""Pause and resume a command's process tree: stopped processes can change nothing."""

import asyncio
import os
import signal
import time

from .proc import below, send_signal

_STOPPED, _DEAD, _WAITING = frozenset("Tt"), frozenset("ZX"), "D"
"""Process states: stopped and traced; dead; and uninterruptible sleep, which no stop reaches until it ends."""


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
                _send_below(pid, signal.SIGCONT)  # perhaps in `vfork` until a child has started
        await asyncio.sleep(0.001 if moving else 0)
    return False


def resume(supervisor: int) -> None:
    """Resume every process below a supervisor."""
    _send_below(supervisor, signal.SIGCONT)


def _send_below(parent: int, number: int) -> None:
    for pid in below(parent):
        send_signal(os.kill, pid, number)


def _states(pid: int) -> set[str]:
    """Return the states of all threads of a process; empty if it is gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return set()
    return {_state(f"/proc/{pid}/task/{thread}/stat") for thread in threads}


def _state(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            line = file.read(4096)
        return chr(line[line.rindex(b")") + 2])
    except (OSError, ValueError, IndexError):
        return "X"
