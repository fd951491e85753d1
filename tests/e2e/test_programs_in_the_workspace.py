"""With an activated environment, programs of the workspace are on the PATH: what the model puts there runs nowhere
unasked and unconfined under the name of another program."""

import subprocess
from pathlib import Path

import pytest

from tests.e2e.mechanisms import EACH_SANDBOX, NO_SANDBOX, on_x86_64
from tests.e2e.world import World, shell
from tests.model.server import Call, Reply

pytestmark = on_x86_64


@pytest.fixture
def programs(world: World) -> Path:
    """The folder of an environment in the workspace, with one program."""
    folder = world.work / ".venv/bin"
    folder.mkdir(parents=True)
    for name in ("pip", "tool"):
        (folder / name).write_text("#!/bin/sh\necho ours\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


def activated(world: World, folder: Path) -> dict[str, str | None]:
    return {"PATH": f"{folder}:{world.environment()['PATH']}"}


def test_a_reader_is_not_taken_for_known_where_the_model_can_have_written_it(world: World, programs: Path) -> None:
    evil = f"touch {world.home / 'ran'}"
    moved = (
        f"*** Begin Patch\n*** Update File: .venv/bin/tool\n*** Move to: .venv/bin/ls\n@@\n-echo ours\n+{evil}\n"
    )
    calls = (
        Call("read_file", {"path": ".venv/bin/pip"}),
        Call("write_file", {"path": ".venv/bin/pip", "content": f"#!/bin/sh\n{evil}\n"}),
        Call("apply_patch", {"patch": f"{moved}*** End Patch\n"}),
        Call("shell", {"command": "pip --version"}),
        Call("shell", {"command": "ls"}),
        Call("shell", {"command": "head -n 1 .venv/bin/ls"}),
    )
    world.script(Reply(calls=calls), Reply(text="done"))
    how = ("--mode", "auto-edit", "--output-format", "stream-json")
    done = world.run("run", "go", *how, before=NO_SANDBOX, env=activated(world, programs))
    states = [line["status"] for line in done.lines if line["type"] == "tool_call_finished"]
    assert states == ["ok", "ok", "ok", "denied", "denied", "ok"]
    assert (programs / "ls").exists() and not (world.home / "ran").exists()


@pytest.mark.parametrize("before", EACH_SANDBOX)
def test_a_command_that_leaves_the_sandbox_finds_the_programs_of_the_machine(
    world: World, programs: Path, before: tuple[str, ...]
) -> None:
    (world.config / "config.yaml").write_text(
        'permissions:\n  allow: ["outside(git push *)", "outside(pip *)"]\n', encoding="utf-8"
    )
    remote = world.home / "remote.git"
    always = ("git", "-c", "user.name=n", "-c", "user.email=e@e")
    for words in (
        ("init", "-q", "-b", "main"),
        ("commit", "-q", "--allow-empty", "-m", "one"),
        ("init", "-q", "--bare", str(remote)),
        ("remote", "add", "origin", str(remote)),
    ):
        subprocess.run([*always, *words], cwd=world.work, check=True, capture_output=True)
    plant = f"printf '#!/bin/sh\\ntouch {world.home / 'ran'}\\n' >git; cp git git-upload-pack; chmod +x git*"
    world.script(shell(f"(cd .venv/bin && {plant})"), shell("git push origin main"), Reply(text="done"))
    world.run("run", "go", "--mode", "auto-edit", before=before, env=activated(world, programs))
    assert (programs / "git").exists() and not (world.home / "ran").exists()
    assert (remote / "refs/heads/main").exists()


def test_an_environment_that_nobody_changed_stays_first_outside(world: World, programs: Path) -> None:
    (programs / "git").write_text("#!/bin/sh\necho ours\n", encoding="utf-8")
    (programs / "git").chmod(0o755)
    (world.config / "config.yaml").write_text('permissions:\n  allow: ["outside(git push *)"]\n', encoding="utf-8")
    world.script(shell("git push x"), Reply(text="done"))
    how = ("--mode", "auto-edit", "--output-format", "stream-json")
    env = activated(world, programs)
    done = world.run("run", "go", *how, before=("/usr/bin/env",), env=env)  # a process that begins now
    (said,) = [line["text"] for line in done.lines if line["type"] == "tool_call_finished"]
    assert said.startswith("ours")


def test_a_worktree_uses_no_program_of_the_checkout(world: World, programs: Path) -> None:
    always = ("git", "-c", "user.name=n", "-c", "user.email=e@e")
    for words in (("init", "-q", "-b", "main"), ("commit", "-q", "--allow-empty", "-m", "one")):
        subprocess.run([*always, *words], cwd=world.work, check=True, capture_output=True)
    for name in ("git", "rg"):
        (programs / name).write_text(f"#!/bin/sh\ntouch {world.home / 'ran'}\nexit 1\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    edit = Call("write_file", {"path": "new", "content": "x"})
    world.script(Reply(calls=(edit, Call("grep", {"pattern": "x"}))), Reply(text="done"))
    done = world.run("run", "-w", "one", "go", "--mode", "auto-edit", env=activated(world, programs))
    assert done.code == 0 and not (world.home / "ran").exists()
