"""What a background command of the real program leaves behind after its call is gone before the user's own git
runs, and is told."""

import os
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


PLANTED_LINKS = """
import os, sys
bait = sys.argv[1]
for name in ("COMMIT_EDITMSG", "logs/HEAD", "logs/refs/heads/main", "FETCH_HEAD"):
    if os.path.lexists(".git/" + name):
        os.unlink(".git/" + name)
    os.symlink(bait, ".git/" + name)
os.makedirs(".git/remotes")
open(".git/remotes/origin", "w").write("URL: %s\\nPush: HEAD:refs/heads/sent\\n" % sys.argv[2])
open(".git/rebase-merge/git-rebase-todo", "a").write("exec touch ran\\n")
open(".git/rebase-merge/strategy", "w").write("x/evil")
os.makedirs("git-merge-x")
open("git-merge-x/evil", "w").write("#!/bin/sh\\ntouch ran\\n")
os.chmod("git-merge-x/evil", 0o755)
"""


@pytest.mark.parametrize("before", EACH_SANDBOX)
@on_x86_64
def test_git_writes_nothing_elsewhere_and_starts_nothing_when_the_user_goes_on(
    world: World, before: tuple[str, ...]
) -> None:
    bait, remote = world.home / ".profile", world.home / "elsewhere.git"
    bait.write_text("mine\n", encoding="utf-8")

    def git(*words: str) -> int:
        always = ("-c", "user.name=n", "-c", "user.email=e@e", "-c", "core.editor=true")
        env = {"PATH": os.environ["PATH"], "HOME": str(world.home)}
        return subprocess.run(["git", *always, *words], cwd=world.work, env=env, capture_output=True).returncode

    def commit(text: str) -> None:
        (world.work / "file").write_text(text, encoding="utf-8")
        git("add", "file")
        git("commit", "-qm", text)

    git("init", "-q", "--bare", str(remote))
    git("init", "-q", "-b", "main")
    commit("one")
    commit("two")
    git("checkout", "-q", "-b", "other", "HEAD~1")
    commit("three")
    commit("four")
    assert git("rebase", "main") != 0
    (world.work / "plant.py").write_text(PLANTED_LINKS, encoding="utf-8")
    world.script(shell(f"python3 plant.py {bait} {remote}"), Reply(text="done"))
    done = world.run("run", "go", "--mode", "auto-edit", "--output-format", "stream-json", before=before)
    (told,) = [line["text"] for line in done.lines if line["type"] == "tool_call_finished"]
    for name in ("COMMIT_EDITMSG", "logs/HEAD", "remotes/origin", "rebase-merge/strategy"):
        assert f".git/{name}" in told and "put back" in told
    for text in ("solved", "again"):
        (world.work / "file").write_text(text, encoding="utf-8")
        git("add", "file")
        git("rebase", "--continue")
    assert not (world.work / ".git/rebase-merge").exists() and not (world.work / "ran").exists()
    commit("five")
    git("fetch", ".")
    git("push")
    assert bait.read_text(encoding="utf-8") == "mine\n"
    assert not (remote / "refs/heads/sent").exists()
