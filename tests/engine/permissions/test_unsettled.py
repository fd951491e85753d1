"""Whoever swaps folders for links while they are judged gets an answer, and no fault."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.engine.permissions.active_policy import Permissions
from agent_cli.protocol.actions import Allow, Ask, Deny, ReadPath, RunCommand
from agent_cli.workspace.paths import PathError, Workspace
from tests.fuzz import LEVEL

SWAP = """
import ctypes, os
os.mkdir("d")
open("d/f.txt", "w").write("x")
os.symlink("/", "other")
libc = ctypes.CDLL(None)
while True:
    libc.syscall(316, -100, b"d", -100, b"other", 2)  # renameat2, RENAME_EXCHANGE
"""

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64" or sys.platform != "linux", reason="a system call")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    work = tmp_path / "work"
    work.mkdir()
    swapping = subprocess.Popen([sys.executable, "-c", SWAP], cwd=work)
    deadline = time.monotonic() + 60
    while not (work / "other").is_symlink() and time.monotonic() < deadline:
        time.sleep(0.01)
    yield work
    swapping.kill()
    swapping.wait()


def test_every_action_gets_a_verdict(root: Path) -> None:
    workspace = Workspace(root)
    permissions = Permissions(workspace, (), mode="ask")
    ends = time.monotonic() + (1.5 if LEVEL else 0.4)
    kinds = set()
    while time.monotonic() < ends:
        for action in (ReadPath(f"{root}/d/f.txt", "d/f.txt"), RunCommand("cat d/f.txt d/*", str(root))):
            kinds.add(type(permissions.authorize(action)))
        try:
            workspace.resolve("d/f.txt")
        except PathError:
            pytest.fail("an attempt more would have told")
    assert kinds <= {Allow, Ask, Deny} and Allow in kinds
