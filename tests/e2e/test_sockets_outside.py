"""Sockets on which programs outside listen are closed to confined commands, whatever path they were given."""

import subprocess
import sys

from tests.e2e.world import World, shell
from tests.model.server import Reply

_LISTEN = """
import socket, sys, time
kept = []
for path in sys.argv[1:]:
    kept.append(socket.socket(socket.AF_UNIX))
    kept[-1].bind(path)
    kept[-1].listen()
print("up", flush=True)
time.sleep(600)
"""
_CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('G' 'OT')"
"""In two parts, since a traceback quotes its line."""


def test_a_socket_of_a_program_outside_is_not_reached(world: World) -> None:
    """Neither in the workspace nor elsewhere, nor when it was bound by a path relative to where its program was."""
    forms = ("{folder}/a.sock", "b.sock", "./c d.sock", "../{name}/e.sock")
    given = {
        folder: [form.format(folder=folder, name=folder.name) for form in forms]
        for folder in (world.work, world.home)
    }
    listening = [
        subprocess.Popen([sys.executable, "-c", _LISTEN, *paths], cwd=folder, stdout=subprocess.PIPE)
        for folder, paths in given.items()
    ]
    try:
        for each in listening:
            assert each.stdout is not None and each.stdout.readline() == b"up\n"
        (world.work / "c.py").write_text(_CONNECT, encoding="utf-8")
        lines = [f"python3 c.py '{folder / path}'" for folder, paths in given.items() for path in paths]
        world.script(*map(shell, lines), Reply(text="done"))
        world.run("run", "go", "--mode", "auto-edit")
    finally:
        for each in listening:
            each.kill()
            each.communicate()
    results = [each["text"] for each in world.records("tool_result")]
    assert len(results) == len(lines)
    assert all("GOT" not in text and "Error" in text for text in results), results
