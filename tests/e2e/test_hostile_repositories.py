"""Repositories that are set to start programs, and programs planted where they might be found: the agent itself
runs outside of every sandbox and starts none of them."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.world import World, shell
from tests.model.server import Call, Reply

COMMIT = "git -c user.name=n -c user.email=e@e commit -qm 1"


def obeyed(world: World, *commands: str, more: tuple[str, ...] = ()) -> list[str]:
    """What became of each command in a run that does one after the other and ends with a search."""
    search = Reply(calls=(Call("grep", {"pattern": "x"}),))
    world.script(*map(shell, commands), search, Reply(text="done"))
    done = world.run("run", "go", "--output-format", "stream-json", *more)
    assert len(world.records("tool_result")) == len(commands) + 1, done.err
    return [record["status"] for record in world.records("tool_result")]


def nested(mark: Path) -> str:
    return (
        f"mkdir -p a/sub && cd a/sub && git init -q && echo x > f && git add f && {COMMIT}"
        f" && git config filter.x.clean \"sh -c 'id > {mark}; cat'\" && echo '* filter=x' > .git/info/attributes"
        " && touch -d 2001-01-01 f"
    )


@pytest.mark.parametrize("level", ["workspace-write", "off"])
def test_a_nested_repository_that_a_command_made_runs_nothing_at_a_checkpoint(world: World, level: str) -> None:
    mark = world.home / "mark"
    obeyed(world, nested(mark), more=("--mode", "yolo", "--sandbox", level))
    mark.unlink(missing_ok=True)
    obeyed_again = ("touch new; touch -d 2002-01-01 a/sub/f",)
    world.script(*map(shell, obeyed_again), Reply(text="done"))
    done = world.run("run", "more", "--continue", "--mode", "yolo", "--sandbox", level)
    assert done.code == 0 and (world.work / "new").exists() and not mark.exists(), done.err


def test_programs_planted_in_an_activated_environment_are_not_run(world: World) -> None:
    mark = world.home / "mark"
    folder = world.work / ".venv" / "bin"
    folder.mkdir(parents=True)
    for name in ("git", "rg"):
        for place in (folder, world.work):
            (place / name).write_text(f"#!/bin/sh\necho $0 >> {mark}\n", encoding="utf-8")
            (place / name).chmod(0o755)
    for path in (f"{folder}:{os.environ['PATH']}", f".:{os.environ['PATH']}", f":{os.environ['PATH']}"):
        world.script(shell("touch new"), Reply(calls=(Call("grep", {"pattern": "x"}),)), Reply(text="done"))
        done = world.run("run", "go", "--mode", "auto-edit", env={"PATH": path})
        assert done.code == 0 and not mark.exists(), done.err


def test_without_a_sandbox_gits_readers_ask_where_the_repository_names_programs(world: World) -> None:
    mark = world.home / "mark"
    setup = (
        f"git init -q; echo x > f; echo '* filter=x' > .gitattributes; git add .; {COMMIT}; touch -d 2001-01-01 f"
    )
    subprocess.run(["sh", "-ec", setup], cwd=world.work, check=True)
    readers = ("git status", "git diff")
    assert obeyed(world, *readers, more=("--mode", "ask", "--sandbox", "off")) == ["ok", "ok", "ok"]
    program = f"sh -c 'echo ran >> {mark}; cat'"
    subprocess.run(["git", "config", "filter.x.clean", program], cwd=world.work, check=True)
    world.script(*map(shell, readers), Reply(text="done"))
    done = world.run("run", "more", "--continue", "--mode", "ask", "--sandbox", "off")
    statuses = [record["status"] for record in world.records("tool_result")]
    assert statuses[3:] == ["denied", "denied"] and not mark.exists(), done.err


def test_pipes_and_devices_in_a_repositorys_own_files_hold_nothing_up(world: World) -> None:
    git = world.work / ".git"
    (git / "info").mkdir(parents=True)
    os.mkfifo(git / "HEAD")
    (git / "info" / "exclude").symlink_to("/dev/zero")
    (world.work / ".agentignore").write_text("**/" * 20_000 + "x\n", encoding="utf-8")
    world.script(shell("echo hello"), Reply(text="done"))
    done = world.run("run", "go", "--mode", "auto-edit", timeout_s=60)
    assert "Traceback" not in done.err and "Git: unreadable repository" in world.messages(0, role="user")[0]


def test_a_secret_hundreds_of_folders_down_is_hidden_and_commands_run(world: World) -> None:
    """Every folder above a hidden file becomes a mount."""
    deep = world.work / "/".join(["d"] * 500)
    deep.mkdir(parents=True)
    (deep / ".env").write_text("KEY=canary\n", encoding="utf-8")
    statuses = obeyed(world, "touch new", f"cat d/*/{'d/' * 498}.[e]nv", more=("--mode", "auto-edit"))
    assert statuses == ["ok", "failed", "ok"] and (world.work / "new").exists()
    assert "canary" not in "".join(world.messages())
