"""What a background command of the real program leaves behind after its call is gone before the user's own git
runs, and is told."""

import subprocess

import pytest

from tests.e2e.mechanisms import EACH_SANDBOX, on_x86_64
from tests.e2e.world import World, shell
from tests.model.server import Call, Reply

JOB = """
import os, time
time.sleep(1.2)
open(".git/commondir", "w").write("../evil")
os.makedirs(".vscode")
open(".vscode/tasks.json", "w").write("evil")
open("done", "w").close()
time.sleep(60)
"""


@pytest.mark.parametrize("before", EACH_SANDBOX)
@on_x86_64
def test_what_a_job_does_after_the_last_command_is_put_back_and_told_at_the_end_of_the_turn(
    world: World, before: tuple[str, ...]
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=world.work, check=True)
    (world.work / "job.py").write_text(JOB, encoding="utf-8")
    job = Reply(calls=(Call("shell", {"command": "python3 job.py", "background": True}),))
    wait = Reply(calls=(Call("jobs", {"action": "read", "job": "1", "wait_s": 1.5}),))
    world.script(job, wait, Reply(text="done"))
    done = world.run("run", "go", "--mode", "auto-edit", "--output-format", "stream-json", before=before)
    assert (world.work / "done").exists() and not (world.work / ".git/commondir").exists()
    notices = " ".join(line["text"] for line in done.lines if line.get("level") == "warning")
    assert ".git/commondir, which git runs or reads; that was put back" in notices
    assert ".vscode/tasks.json, which may run later" in notices


PLANT = """
import os
for name in ("sub/objects", "sub/refs"):
    os.makedirs(name)
open("sub/config", "w").write("[core]\\nfsmonitor = touch pwned\\nworktree = ..\\n")
open("sub/HEAD", "w").write("ref: refs/heads/x\\n")
"""


@pytest.mark.parametrize("before", EACH_SANDBOX)
@on_x86_64
def test_a_folder_that_a_program_has_turned_into_a_repository_is_told(
    world: World, before: tuple[str, ...]
) -> None:
    (world.work / "plant.py").write_text(PLANT, encoding="utf-8")
    world.script(shell("python3 plant.py"), Reply(text="done"))
    done = world.run("run", "go", "--mode", "auto-edit", "--output-format", "stream-json", before=before)
    assert "it changed sub/config, which may run later" in str(done.lines)


def test_a_command_outside_the_sandbox_may_change_what_it_likes_beside_a_job(world: World) -> None:
    subprocess.run(["git", "init", "-q"], cwd=world.work, check=True)
    job = Reply(calls=(Call("shell", {"command": "sleep 60", "background": True}),))
    world.script(job, shell("git remote add origin /nowhere"), shell("true"), Reply(text="done"))
    world.run("run", "go", "--mode", "yolo", "--output-format", "stream-json")
    remotes = subprocess.run(["git", "remote"], cwd=world.work, check=True, capture_output=True, text=True)
    assert remotes.stdout == "origin\n"
