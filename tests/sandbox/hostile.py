"""Programs that do all they can to outlive the agent, and how to tell whether one has."""

import asyncio
import os
import sys
import time
from pathlib import Path

PYTHON = f"{sys.executable} -I -S -B"

_DAEMON = """
import os, signal, sys, time
mark = sys.argv[1]
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.chdir("/")
os.closerange(0, 256)
os.execve("/bin/sleep", ["sleep", mark], {})
"""

_RESPAWNER = """
import os, sys, time
os.closerange(0, 3)
def keep_one_alive(depth):
    while True:
        child = os.fork()
        if child == 0:
            os.setsid()
            if depth:
                keep_one_alive(depth - 1)
            os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
        os.waitpid(child, 0)
if os.fork() == 0:
    os.setsid()
    keep_one_alive(2)
"""

_FUGITIVE = """
import os, sys
if os.fork() == 0:
    os.closerange(0, 3)
    os.setsid()
    while True:  # a new process each time, the old one gone
        if os.fork():
            os._exit(0)
"""

SCRIPTS = {"daemon.py": _DAEMON, "respawner.py": _RESPAWNER, "fugitive.py": _FUGITIVE}

PROGRAMS = {
    "background": "sleep {mark} & sleep {mark}",
    "nohup setsid": "nohup setsid sleep {mark} >/dev/null 2>&1 & sleep {mark}",
    "daemon": PYTHON + " daemon.py {mark}; sleep {mark}",
    "respawner": PYTHON + " respawner.py {mark}; sleep {mark}",
    "fugitive": PYTHON + " fugitive.py {mark}; sleep {mark}",
}
"""Command lines whose shell goes on."""

LEAVING = {
    "background": "sleep {mark} &",
    "daemon whose shell has ended": PYTHON + " daemon.py {mark}",
    "respawner whose shell has ended": PYTHON + " respawner.py {mark}",
}
"""Command lines whose shell ends at once."""


def write_scripts(folder: Path) -> None:
    for name, text in SCRIPTS.items():
        (folder / name).write_text(text, encoding="utf-8")


def new_mark() -> str:
    """A duration for `sleep` that names one test's processes."""
    return f"{900 + os.getpid() % 90}.{time.monotonic_ns() % 10**9}"


def alive(mark: str) -> list[int]:
    """Pids of processes with the mark in their arguments, zombies and command lines of shells excepted."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if mark.encode() in words and b") Z" not in Path(f"/proc/{pid}/stat").read_bytes():
                found.append(int(pid))
        except OSError:
            pass
    return found


async def all_gone(mark: str, within_s: float) -> bool:
    end = time.monotonic() + within_s
    while alive(mark):
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.01)
    return True


async def until_alive(mark: str, count: int) -> None:
    end = time.monotonic() + 60
    while len(alive(mark)) < count:
        assert time.monotonic() < end, "the processes did not start"
        await asyncio.sleep(0.01)
