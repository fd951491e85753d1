"""Sockets on which programs outside listen are closed to confined commands, whatever path they were given."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.world import World, shell
from tests.model.server import Reply

_LISTEN = """
import socket, sys, time
it = socket.socket(socket.AF_UNIX)
it.bind(sys.argv[1])
it.listen()
print("up", flush=True)
time.sleep(600)
"""
_CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('G' 'OT')"
"""In two parts, since a traceback quotes its line."""


@pytest.mark.parametrize("given", ["{folder}/a.sock", "a.sock", "./a b.sock", "../{name}/a.sock"])
@pytest.mark.parametrize("place", ["work", "home"])
def test_a_socket_of_a_program_outside_is_not_reached(world: World, place: str, given: str) -> None:
    folder: Path = getattr(world, place)
    path = given.format(folder=folder, name=folder.name)
    listening = subprocess.Popen([sys.executable, "-c", _LISTEN, path], cwd=folder, stdout=subprocess.PIPE)
    try:
        assert listening.stdout is not None and listening.stdout.readline() == b"up\n"
        (world.work / "c.py").write_text(_CONNECT, encoding="utf-8")
        world.script(shell(f"python3 c.py '{folder / path}'"), Reply(text="done"))
        world.run("run", "go", "--mode", "auto-edit")
    finally:
        listening.kill()
        listening.communicate()
    (result,) = world.records("tool_result")
    assert "GOT" not in result["text"] and "Error" in result["text"], result["text"]
