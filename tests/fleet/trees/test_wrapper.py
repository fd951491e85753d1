"""Programs in a tree that is mounted at the path of the main checkout, with bubblewrap and without."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_cli.fleet.task import Task
from agent_cli.fleet.trees.attempt_tree import AttemptTree
from agent_cli.fleet.trees.open_tree import missing_parts
from agent_cli.fleet.trees.wrapper import Wrapper, hidden_by, usable
from agent_cli.sandbox.mechanisms import bubblewrap
from agent_cli.sandbox.probe import measure
from agent_cli.sandbox.process.runner import Completed, ProcessRunner
from tests.workspace.worktrees.test_worktrees import git, put

from .test_trees import at_old, base, everything, opened, place, repo

__all__ = ["base", "place", "repo"]

pytestmark = pytest.mark.skipif(not bubblewrap.program(), reason="there is no bubblewrap on this machine")
LISTEN = """
import socket, sys
with socket.create_server(("127.0.0.1", 3000)) as server:
    print("ready", flush=True)
    sys.stdin.read()
    with socket.create_connection(("127.0.0.1", 3000)):
        print("reached", flush=True)
"""
SAVES = """
import signal, sys, time
def end(number, frame):
    open("saved", "a").write(f"{number} ")
    sys.exit(7)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
while True:
    time.sleep(60)
"""
MEASURE = """
import asyncio, json, sys
from pathlib import Path
from agent_cli.sandbox.probe import measure
from agent_cli.sandbox.process.runner import ProcessRunner
async def main():
    runner = ProcessRunner()
    try:
        strength = await measure(runner, Path(sys.argv[1]))
        print(json.dumps([runner.mechanism and runner.mechanism.name, strength.mechanism, strength.why]))
    finally:
        await runner.aclose()
asyncio.run(main())
"""


@pytest.fixture
async def runner() -> AsyncIterator[ProcessRunner]:
    runner = ProcessRunner()
    yield runner
    await runner.aclose()


async def inside(
    tree: AttemptTree, runner: ProcessRunner, *argv: str, own_network: bool = False, input: bytes = b""
) -> Completed:
    """Run a program in a tree."""
    env = {**os.environ, **tree.variables}
    line = tree.wrapper.line(argv, own_network=own_network)
    return await runner.run(line, cwd=tree.path, env=env, input=input, timeout_s=60)


async def test_the_tree_is_at_the_path_of_the_main_checkout_which_is_out_of_sight(
    repo: Path, place: Path, runner: ProcessRunner, base: Path
) -> None:
    put(repo, "secret.txt", "of the user\n")
    before = everything(repo)
    tree = await opened(at_old(repo), place, runner)
    assert tree.inside == repo and tree.notes == ()
    script = (
        "pwd; cat a.txt; ls; git log --all --format=%s; git for-each-ref; git status --porcelain;"
        " echo more > new.txt; git add -A; git -c user.name=T -c user.email=t@x commit -qm mine; git log --format=%s;"
        " git rev-parse --show-toplevel; cat /proc/1/root" + str(repo) + "/secret.txt 2>&1"
    )
    done = await inside(tree, runner, "sh", "-c", script)
    lines = done.stdout.decode().splitlines()
    assert lines[:4] == [str(repo), "one", "two", "three"]
    assert "secret.txt" not in lines and lines[-5:-2] == ["one", "mine", "one"] and lines[-2] == str(repo)
    assert "No such file" in lines[-1] and not done.stderr, (lines, done.stderr)
    assert (tree.path / "new.txt").exists() and git(tree.path, "log", "--format=%s") == "mine\none\n"
    assert (await tree.save_patch(base / "p.diff")).files == ("new.txt",)
    await tree.remove()
    assert everything(repo) == before and not list(place.iterdir())


async def test_dependencies_are_used_at_their_own_path_and_none_can_change_them(
    repo: Path, place: Path, runner: ProcessRunner, base: Path
) -> None:
    package = repo / "node_modules/greet"
    put(package, "index.js", f"module.exports = require('{package}/word.js')\n")
    put(package, "word.js", "module.exports = 'hello from ' + __dirname\n")
    script = put(repo, ".venv/bin/tool", f"#!{repo}/.venv/bin/python\nprint('tool')\n", 0o755)
    (repo / ".venv/bin/python").symlink_to(sys.executable)
    put(repo, "packages/a/node_modules/x.txt", "x\n")
    (repo / "venv").symlink_to(".venv")
    before = everything(repo)
    tree = await opened(at_old(repo), place, runner)
    assert tree.notes == () and not any((tree.path / "node_modules").iterdir())
    assert (await inside(tree, runner, str(script))).stdout == b"tool\n"
    if node := shutil.which("node"):
        done = await inside(tree, runner, node, "-e", "console.log(require('greet'))", own_network=True)
        assert done.stdout.decode() == f"hello from {package}\n", done.stderr
    attacks = (
        "echo bad > node_modules/greet/index.js; rm -rf node_modules/greet .venv/bin; mv node_modules gone;"
        " echo bad >> .venv/bin/tool; chmod 0 .venv; touch node_modules/new; mount -o remount,rw node_modules;"
        " echo end"
    )
    assert (await inside(tree, runner, "sh", "-c", attacks)).stdout == b"end\n"
    assert everything(repo) == before
    assert (await tree.save_patch(base / "p.diff")).files == ()
    await tree.remove()
    assert everything(repo) == before and not list(place.iterdir())


@pytest.mark.parametrize(("deps", "there"), [("none", False), ("copy", True), ("reflink", True)])
async def test_dependencies_can_be_left_out_or_copied(
    repo: Path, place: Path, runner: ProcessRunner, deps: str, there: bool
) -> None:
    put(repo, "node_modules/x/index.js", "x\n")
    before = everything(repo)
    tree = await opened(at_old(repo, deps=deps), place, runner)
    assert (tree.path / "node_modules/x/index.js").exists() == there
    done = await inside(
        tree, runner, "sh", "-c", "echo changed > node_modules/x/index.js; cat node_modules/x/index.js"
    )
    assert (done.stdout == b"changed\n") == there and everything(repo) == before
    await tree.remove()
    assert everything(repo) == before


async def test_what_builds_write_to_is_not_bound_and_that_is_said(
    repo: Path, place: Path, runner: ProcessRunner
) -> None:
    put(repo, "build/out.o", "built\n")
    tree = await opened(at_old(repo), place, runner)
    assert not (tree.path / "build").exists() and "build is missing: builds write to it" in tree.notes[0]


async def test_eight_trees_listen_on_the_same_port(repo: Path, place: Path, runner: ProcessRunner) -> None:
    trees = await asyncio.gather(*(opened(at_old(repo), place, runner, f"t{n}", n) for n in range(8)))
    running, heard = [], [bytearray() for _ in trees]
    for tree, output in zip(trees, heard, strict=True):
        line = tree.wrapper.line([sys.executable, "-c", LISTEN], own_network=True)
        running.append(
            await runner.start(line, cwd=tree.path, env=os.environ, on_output=output.extend, takes_input=True)
        )
    async with asyncio.timeout(60):
        while not all(b"ready" in output for output in heard):
            await asyncio.sleep(0.01)
        for each in running:
            each.close_input()
        for each in running:
            assert await each.ended_within(30)
    assert [(each.exit_code, bytes(output)) for each, output in zip(running, heard, strict=True)] == [
        (0, b"ready\nreached\n")
    ] * 8
    for each in running:
        await each.stop()
    await asyncio.gather(*(tree.remove() for tree in trees))


@pytest.mark.parametrize("to_group", [False, True])
async def test_a_signal_reaches_the_program_once_and_it_can_save_its_work(
    repo: Path, place: Path, runner: ProcessRunner, to_group: bool
) -> None:
    tree = await opened(at_old(repo), place, runner)
    heard = bytearray()
    line = tree.wrapper.line([sys.executable, "-c", SAVES], own_network=False)
    running = await runner.start(line, cwd=tree.path, env=os.environ, on_output=heard.extend)
    async with asyncio.timeout(30):
        while b"ready" not in heard:
            await asyncio.sleep(0.01)
    (os.killpg if to_group else os.kill)(running.pid, signal.SIGTERM)
    assert await running.ended_within(30) and running.exit_code == 7
    assert (tree.path / "saved").read_text() == f"{int(signal.SIGTERM)} "
    await running.stop()


async def test_nothing_is_left_when_the_start_is_killed(repo: Path, place: Path, runner: ProcessRunner) -> None:
    tree = await opened(at_old(repo), place, runner)
    read, write = os.pipe()
    line = tree.wrapper.line(["sh", "-c", "echo ready; exec sleep 1000"], own_network=False)
    process = await asyncio.create_subprocess_exec(*line, stdout=write)
    os.close(write)
    assert os.read(read, 100) == b"ready\n"
    process.kill()
    async with asyncio.timeout(30):
        assert await asyncio.to_thread(os.read, read, 100) == b""  # the last process that held the pipe is gone
    os.close(read)
    await process.wait()


async def test_exit_codes_and_input_pass_through(repo: Path, place: Path, runner: ProcessRunner) -> None:
    tree = await opened(at_old(repo), place, runner)
    assert (await inside(tree, runner, "sh", "-c", "exit 3")).exit_code == 3
    assert (await inside(tree, runner, "sh", "-c", "kill -9 $$")).exit_code == 128 + 9
    assert (await inside(tree, runner, "cat", input=b"given")).stdout == b"given"
    assert (await inside(tree, runner, "/nowhere/at/all")).exit_code != 0


async def test_the_agent_confines_its_commands_in_there_as_well_as_outside(
    repo: Path, place: Path, runner: ProcessRunner, base: Path
) -> None:
    tree = await opened(at_old(repo), place, runner)
    done = await inside(tree, runner, sys.executable, "-c", MEASURE, str(base))
    strength = await measure(runner, base)
    outside = [runner.mechanism and runner.mechanism.name, strength.mechanism, strength.why]
    assert json.loads(done.stdout) == outside, done.stderr


async def test_without_bubblewrap_programs_run_at_the_path_of_the_tree(
    tmp_path: Path, runner: ProcessRunner
) -> None:
    wanted = Wrapper(inside=f"{tmp_path}/missing/deep", tree=str(tmp_path), fixed=(("/nowhere", "/nowhere"),))
    task, folders = Task(id="x", prompt="-"), ("node_modules", "target")
    for program in ("", "/bin/false"):
        found, reason = await usable(wanted, runner.run, program)
        assert found == Wrapper(tree=str(tmp_path)) and found.line(["x", "y"], own_network=True) == ["x", "y"]
        notes = missing_parts(task, wanted, found, reason, folders)
        assert [note.split(" ")[0] for note in notes] == ["dependency", "target", "setup"]
        assert "(node_modules) are missing" in notes[0] and "bubblewrap" in notes[0]
    found, reason = await usable(wanted, runner.run)
    assert found == Wrapper(bubblewrap.program(), tree=str(tmp_path)) and "bubblewrap does not work here" in reason
    assert found.line(["x"], own_network=False) == ["x"] and "--unshare-net" in found.line(["x"], own_network=True)
    assert len(missing_parts(task, wanted, found, reason, folders)) == 2


def test_an_agent_that_is_installed_in_the_checkout_is_not_hidden() -> None:
    assert hidden_by(Wrapper(inside=sys.prefix, tree="/t"))
    everything_fixed = tuple(
        (path, path) for path in (sys.prefix, sys.base_prefix, str(Path(__file__).parents[3] / "agent_cli"))
    )
    assert not hidden_by(Wrapper(inside="/", tree="/t", fixed=everything_fixed))
    assert not hidden_by(Wrapper(inside="/somewhere/else", tree="/t"))
