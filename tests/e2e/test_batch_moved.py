"""A batch whose folders are moved away under it: attempts touch nothing of what is at their place then, and the record
stays with the files that it names."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.sandbox.mechanisms import bubblewrap
from tests.e2e.fleet import answering, applied, batch, git, outcomes, repository, results, tasks_file, writes
from tests.e2e.world import World, shell, until
from tests.model.server import Call, Reply

mounted = pytest.mark.skipif(
    sys.platform != "linux" or not bubblewrap.program(), reason="only trees that bubblewrap mounts are at the path"
)


@mounted
@pytest.mark.parametrize("how", ["moved", "removed"])
def test_a_repository_that_replaces_the_one_of_an_attempt_is_not_touched(world: World, how: str) -> None:
    repo, swapped = world.home / "repo", list[str]()
    repository(repo)

    def swap() -> None:
        subprocess.run(["git", "clone", "-q", str(repo), str(world.home / "new")], check=True)
        repo.rename(world.home / "old") if how == "moved" else shutil.rmtree(repo)
        (world.home / "new").rename(repo)

    def answer(prompt: str, done: int) -> Reply:
        if done == 1 and not swapped:
            swapped.append(how)
            swap()
        replies = (
            shell("echo one > one.txt"),
            Reply(calls=(Call("write_file", {"path": "two.txt", "content": "two"}),)),
            shell("rm README.md"),
        )
        return replies[done] if done < len(replies) else Reply(text="done")

    answering(world, answer)
    out = world.home / "out"
    done = batch(world, tasks_file(world, [{"id": "one", "prompt": "go", "repo": str(repo)}]))
    assert (git(repo, "status", "--porcelain"), sorted(os.listdir(repo))) == ("", [".git", "README.md"])
    first, second = results(out)
    assert (first["outcome"], first["error"]["kind"], first["patch"]["files"]) == (
        "crash",
        "moved",
        ["one.txt"],
    ), done
    assert (second["outcome"], second["patch"]["files"]) == ("done", ["README.md", "one.txt", "two.txt"])


@mounted
def test_an_attempt_is_stopped_once_its_repository_is_moved(world: World) -> None:
    repo, asked = world.home / "repo", list[str]()
    repository(repo)

    def answer(prompt: str, done: int) -> Reply:
        asked.append(prompt)
        return shell("echo one > one.txt; sleep 1000") if not done else Reply(text="done")

    answering(world, answer)
    out = world.home / "out"
    tasks = tasks_file(world, [{"id": "one", "prompt": "go", "repo": str(repo)}])
    running = world.start("batch", str(tasks), "-o", str(out))
    until(lambda: world.alive(b"sleep\x001000"))
    repo.rename(world.home / "elsewhere")
    assert running.wait(120) == 9
    first = results(out)[0]
    assert outcomes(out) == {"one": ["crash", "setup", "setup"]}
    assert Path(first["tree"], "one.txt").read_text(encoding="utf-8") == "one\n"  # no patch without the repository
    assert not repo.exists() and asked == asked[:1]


@pytest.mark.parametrize("how", ["moved", "removed"])
def test_a_batch_whose_folder_is_moved_stops_and_goes_on_when_it_is_back(world: World, how: str) -> None:
    commit = repository(world.work)
    out, away, moved = world.home / "out", world.home / "away", list[str]()

    def answer(prompt: str, done: int) -> Reply:
        if done and not moved:
            moved.append(how)
            out.rename(away)
            if how == "removed":
                shutil.rmtree(away)
        return writes(prompt, done)

    answering(world, answer)
    tasks = tasks_file(
        world, [{"id": f"t{n}", "prompt": f"write f{n}.txt: v", "repo": str(world.work)} for n in range(3)]
    )
    done = batch(world, tasks, "-j", "1")
    assert done.code == 1 and f"{out}: it was moved, removed or replaced while the batch ran" in done.err, done
    assert not out.exists()
    trees = [*Path(f"{world.state}-worktrees").glob("batches/*/*/t0-1/f0.txt")]
    assert [tree.read_text(encoding="utf-8") for tree in trees] == ["v\n"]
    if how == "moved":
        away.rename(out)
        assert batch(world, tasks).code == 0
        assert outcomes(out) == {"t0": ["lost", "done"], "t1": ["done"], "t2": ["done"]}
        assert applied(out / "tasks/t0/1/patch.diff", world.work, commit, world.home / "check")["f0.txt"] == "v\n"
