"""Pausing what a supervisor watches over: processes that stand still can change nothing, and go on afterwards."""

import asyncio
import os
import signal
import time

from .proc import below, send_signal

_STILL = frozenset(b"TtZX")
"""Stopped, traced, dead."""


async def pause(supervisor: int, limit_s: float = 2.0) -> bool:
    """Stop every process below a supervisor; False where some still run when the limit is reached. A process may
    fork until its stop arrives: only a second look at processes that all stood still has seen every one."""
    end, stood_still = time.monotonic() + limit_s, False
    while time.monotonic() < end:
        moving = [pid for pid in below(supervisor) if not _stands_still(pid)]
        if not moving and stood_still:
            return True
        stood_still = not moving
        for pid in moving:
            send_signal(os.kill, pid, signal.SIGSTOP)
        if moving:
            await asyncio.sleep(0.001)
    return False


def resume(supervisor: int) -> None:
    """Let everything below a supervisor go on."""
    for pid in below(supervisor):
        send_signal(os.kill, pid, signal.SIGCONT)


def _stands_still(pid: int) -> bool:
    """Whether no thread of a process runs; one that is gone does not."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return True
    return all(_state(f"/proc/{pid}/task/{thread}/stat") in _STILL for thread in threads)


def _state(path: str) -> int:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            line = file.read(4096)
        return line[line.rindex(b")") + 2]
    except (OSError, ValueError, IndexError):
        return ord("X")
