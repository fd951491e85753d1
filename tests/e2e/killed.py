"""A program that is killed in the middle of its work, at a moment that does not depend on the machine: at one of its
own steps, as the interpreter's audit events show them.
"""

import os
import signal
import sys
from typing import Any, Literal, get_args

KILL = "AGENT_E2E_KILL"
"""The variable that tells a warm program (`warm`) where to kill itself: a step, and at the how many'th of its kind."""
Step = Literal["record", "rename", "open"]
"""In the middle of an append to the session file (written, not yet cut to length nor synced), before a file takes the
place of another, before a file is opened for writing."""
_AUDITED = {"record": "os.truncate", "rename": "os.rename", "open": "open"}
assert _AUDITED.keys() == {*get_args(Step)}
_PROGRAM = """
import os, signal, sys
left = [10]
def watch(event, args):
    if {condition}:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
from agent_cli import __main__
sys.argv[1:] = sys.argv[2:]
sys.addaudithook(watch)
__main__.main()
"""


def killed_at_the_tenth(condition: str) -> list[str]:
    """What `World.start` puts before a program that is to be killed at the tenth audit event, as Python's `event` and
    `args`, for which `condition` holds."""
    return [sys.executable, "-c", _PROGRAM.format(condition=condition)]


def kill_at(place: str) -> None:
    """Kill this process where `KILL` says."""
    step, _, count = place.partition(" ")
    left, own = int(count), os.getpid()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event != _AUDITED[step] or os.getpid() != own:
            return
        if step == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        left -= 1
        if left == 0:
            os.kill(own, signal.SIGKILL)

    sys.addaudithook(hook)
