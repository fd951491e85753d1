"""In `yolo` without a sandbox: commands have all rights but for the files that rules deny, where bubblewrap can be
had."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.mechanisms import ANY, EACH, LANDLOCK_ONLY, on_x86_64
from tests.e2e.world import World, shell
from tests.model.server import Reply

RULES = "permissions: {{deny: ['read(secret/**)', 'write(migrations/**)', 'read({outside}/**)']}}\n"
ATTACKS = {
    "reads": "print(open('sec' + 'ret/a.txt').read())",
    "renames": "os.rename('sec' + 'ret', 'open'); print(open('open/a.txt').read())",
    "links": "os.link('sec' + 'ret/a.txt', 'l.txt'); print(open('l.txt').read())",
    "other root": "print(open(f'/proc/{PID}/root' + os.getcwd() + '/sec' + 'ret/a.txt').read())",
    "other folder": "print(open(f'/proc/{PID}/cwd/sec' + 'ret/a.txt').read())",
    "unmounts": "print(subprocess.run(['umount', '-l', 'sec' + 'ret/a.txt'])); print(open('sec' + 'ret/a.txt').read())",
    "unmounts in a namespace": (
        "subprocess.run(['unshare', '-Urm', 'sh', '-c', 'umount -l sec*/a.txt; umount -l sec*; cat sec*/a.txt'])"
    ),
    "enters": "subprocess.run(['nsenter', '-t', str(PID), '-m', 'cat', os.getcwd() + '/sec' + 'ret/a.txt'])",
    "outside": "print(open(OUTSIDE + '/b.txt').read())",
    "writes": "open('migra' + 'tions/1.sql', 'w').write('spoiled')",
    "replaces": "open('x', 'w').write('spoiled'); os.replace('x', 'migra' + 'tions/1.sql')",
}
FREE = (
    "import socket; socket.create_connection(('127.0.0.1', PORT), 5)\n"
    "os.kill(PID, 0)\n"
    "open(HOME + '/made', 'w').write('x'); os.chmod(HOME + '/made', 0o600)\n"
    "os.rename(HOME + '/made', 'moved')\n"
    "print('free', open('free.txt').read(), os.path.exists(f'/proc/{PID}/status'))\n"
    "open('/dev/null', 'w').write('x')\n"
)


def laid_out(world: World) -> Path:
    outside = world.home / "priv"
    for path in (world.work / "secret" / "a.txt", outside / "b.txt"):
        path.parent.mkdir()
        path.write_text("planted", encoding="utf-8")
    (world.work / "migrations").mkdir()
    (world.work / "migrations" / "1.sql").write_text("kept", encoding="utf-8")
    (world.work / "free.txt").write_text("as ever", encoding="utf-8")
    (world.config / "config.yaml").write_text(RULES.format(outside=outside), encoding="utf-8")
    return outside


def program(world: World, name: str, source: str) -> str:
    port = world.server.url.rpartition(":")[2].partition("/")[0]
    facts = {"HOME": str(world.home), "OUTSIDE": str(world.home / "priv"), "PID": os.getpid(), "PORT": int(port)}
    head = "import os, subprocess\n" + "".join(f"{key} = {value!r}\n" for key, value in facts.items())
    (world.work / f"{name}.py").write_text(head + source, encoding="utf-8")
    return f"python3 {name}.py"


def told(world: World, commands: list[str]) -> list[str]:
    world.script(*map(shell, commands), Reply(text="done"))
    done = world.run("run", "go", "--mode", "yolo", "--output-format", "json", timeout_s=60.0)
    assert done.result["denied"] == [], done.err
    return [record["text"] for record in world.records("tool_result")]


def test_no_program_gets_at_denied_files(world: World) -> None:
    laid_out(world)
    commands = [program(world, f"try{at}", source) for at, source in enumerate(ATTACKS.values())]
    results = dict(zip(ATTACKS, told(world, commands), strict=True))
    assert not {name: text for name, text in results.items() if "planted" in text}
    assert (world.work / "migrations" / "1.sql").read_text(encoding="utf-8") == "kept", results
    assert (world.work / "secret" / "a.txt").read_text(encoding="utf-8") == "planted"
    assert "outside the sandbox" not in "".join(results.values())


def test_all_else_is_as_without_rules(world: World) -> None:
    laid_out(world)
    (text,) = told(world, [program(world, "free", FREE)])
    assert "free as ever True" in text and "exit code 0" in text, text
    assert (world.work / "moved").exists()


def test_without_rules_on_paths_commands_run_as_they_are(world: World) -> None:
    (world.config / "config.yaml").write_text("permissions: {deny: ['shell(rm *)']}\n", encoding="utf-8")
    (text,) = told(world, ["readlink /proc/self/ns/mnt"])
    ours = subprocess.run(["readlink", "/proc/self/ns/mnt"], capture_output=True, text=True, check=True).stdout
    assert ours.strip() in text


@pytest.mark.parametrize("before", EACH)
@on_x86_64
def test_the_level_says_whether_denied_files_stay_closed(world: World, before: tuple[str, ...]) -> None:
    laid_out(world)
    world.script(Reply(text="done"))
    done = world.run("run", "go", "--mode", "yolo", "--output-format", "stream-json", before=before)
    shown = done.lines[0]["sandbox"]
    if before == ANY:
        assert shown == "off (files denied by rules stay hidden)"
    else:
        assert "file rules apply only to calls that name the file" in shown, (before == LANDLOCK_ONLY, shown)
