"""Pause and resume a command's process tree: stopped processes can change nothing."""

import asyncio
import os
import signal
import time

from .proc import below, send_signal

_STILL, _WAITING = frozenset("TtZX"), "D"
"""Process states: stopped, traced and dead; and uninterruptible sleep, which no stop reaches until it ends."""


async def pause(supervisor: int, limit_s: float = 2.0) -> bool:
    """Stop every process below a supervisor; return False if some still run after `limit_s`. A process may fork
    until its stop arrives, so only a second look that finds all of them stopped is proof."""
    end, stood_still = time.monotonic() + limit_s, False
    while time.monotonic() < end:
        moving = {pid: states for pid in below(supervisor) if not (states := _states(pid)) <= _STILL}
        if not moving and stood_still:
            return True
        stood_still = not moving
        for pid, states in moving.items():
            send_signal(os.kill, pid, signal.SIGSTOP)
            if _WAITING in states:
                _send_below(pid, signal.SIGCONT)  # perhaps in `vfork` until a child has started
        if moving:
            await asyncio.sleep(0.001)
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
