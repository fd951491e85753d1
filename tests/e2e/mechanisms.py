"""Machines on which a sandbox mechanism is missing: command lines that start a program with a filter of system
calls, so that a test runs with each mechanism alone, whatever this machine has. `warm` sets the same filter."""

import os
import sys
from collections.abc import Sequence

import pytest

FILTER = """
import ctypes, os, struct, sys
step = lambda *parts: struct.pack("HBBI", *parts)
code = [step(0x20, 0, 0, 0)]
for call in map(int, sys.argv[1].split(",")):
    code += [step(0x15, 0, 1, call), step(6, 0, 0, 0x00050001)]
code += [step(0x15, 0, 3, 56), step(0x20, 0, 0, 16), step(0x45, 0, 1, 0x7E020000), step(6, 0, 0, 0x00050001)]
code += [step(6, 0, 0, 0x7FFF0000)]
kept = ctypes.create_string_buffer(b"".join(code))
program = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(kept))
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, program) == 0
"""
"""Python code; `sys.argv[1]` holds the numbers of the system calls."""
_FILTERED = f"{FILTER}os.execv(sys.argv[2], sys.argv[2:])\n"
_UNSHARE, _MOUNT, _LANDLOCK_CREATE_RULESET = 272, 165, 444
"""Numbers of system calls on x86-64; `clone` with a namespace flag is refused as well."""


def _without(*calls: int) -> tuple[str, ...]:
    return (sys.executable, "-c", _FILTERED, ",".join(map(str, calls)))


def is_filter(before: Sequence[str]) -> bool:
    """Whether a command line does no more than set a filter before it starts the program."""
    return tuple(before[:3]) == _without()[:3]


ANY: tuple[str, ...] = ()
"""The strongest mechanism that this machine has."""
LANDLOCK_ONLY = _without(_UNSHARE, _MOUNT)
"""No namespaces, so no bubblewrap."""
NO_SANDBOX = _without(_UNSHARE, _MOUNT, _LANDLOCK_CREATE_RULESET)
EACH_SANDBOX = [pytest.param(ANY, id="strongest"), pytest.param(LANDLOCK_ONLY, id="landlock")]
EACH = [*EACH_SANDBOX, pytest.param(NO_SANDBOX, id="none")]
on_x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls")
