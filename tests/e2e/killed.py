"""A program that is killed in the middle of its work, at a moment that does not depend on the machine."""

import sys

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
