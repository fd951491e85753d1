"""No edit of a batch is lost: by a kill while its tree is removed, in repositories inside it, by names."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fleet import answering, applied, batch, git, outcomes, repository, results, tasks_file, writes
from tests.e2e.killed import killed_at_the_tenth
from tests.e2e.test_hidden_tests import shell
from tests.e2e.world import World, finish, until
from tests.model.server import Reply

REMOVES = 'event == "os.remove" and str(args[0]).endswith(".txt")'

OPEN = {"mode": "yolo", "sandbox": "off"}


def test_a_kill_while_the_tree_is_removed_leaves_the_patch_and_the_outcome(world: World, own_tmp: None) -> None:
    many = world.work / "many"
    many.mkdir()
    for number in range(20):
        (many / f"{number}.txt").write_text("x\n", encoding="utf-8")
    commit = repository(world.work)
    answering(world, writes)
    tasks = tasks_file(world, [{"id": "one", "prompt": "write f.txt: kept", "repo": str(world.work)}])
    out = world.home / "out"
    killed = world.start("batch", str(tasks), "-o", str(out), before=killed_at_the_tenth(REMOVES))
    assert finish(killed).code == -signal.SIGKILL
    (tree,) = Path(f"{world.state}-worktrees").glob("batches/*/*/one-1")
    assert 0 < len(list(tree.glob("many/*.txt"))) < 20, "the removal was not interrupted"
    again = batch(world, tasks)
    assert again.code == 0, again
    assert outcomes(out) == {"one": ["done"]}, "an attempt with an outcome is not repeated"
    patch = out / "tasks/one/1/patch.diff"
    assert set(applied(patch, world.work, commit, world.home / "check")) >= {"f.txt", "many/0.txt"}
    assert not tree.exists()


def test_a_tree_with_a_repository_inside_stays(world: World) -> None:
    repository(world.work)
    answering(world, shell)
    make = "mkdir sub && cd sub && git init -q . && echo new > a.txt"
    task = {"id": "one", "prompt": f"run: {make}", "repo": str(world.work), **OPEN}
    out = world.home / "out"
    done = batch(world, tasks_file(world, [task]), "--keep", "none", "--keep-gb", "0")
    (line,) = results(out)
    assert line["outcome"] == "done" and line["patch"]["left_out"] == ["sub/"], line
    assert Path(line["tree"], "sub/a.txt").read_text(encoding="utf-8") == "new\n"
    assert line["tree"] in done.out


def test_tasks_whose_long_names_are_alike_keep_their_sessions_and_patches(world: World, own_tmp: None) -> None:
    commit = repository(world.work)
    answering(world, lambda prompt, done: Reply(text="", hang="mid_stream") if done else writes(prompt, 0))
    names = ["x" * 60 + letter for letter in "ab"]
    tasks = tasks_file(
        world, [{"id": name, "prompt": f"write {name[-1]}.txt: v", "repo": str(world.work)} for name in names]
    )
    out = world.home / "out"
    running = world.start("batch", str(tasks), "-o", str(out), "-j", "3")
    until(lambda: len(world.bodies()) >= 4)
    running.kill()
    running.wait(60)
    until(lambda: not world.alive(b"agent_cli\0run\0"))
    answering(world, lambda prompt, done: Reply(text="done"))
    assert batch(world, tasks, "-j", "3").code == 0
    for name in names:
        first = out / "tasks" / name / "1"
        assert f"write {name[-1]}.txt" in (first / "session.json").read_text(encoding="utf-8")
        assert f"{name[-1]}.txt" in applied(first / "patch.diff", world.work, commit, world.home / "check")
        assert (out / "tasks" / name / "2" / "session.json").exists()


ODD = {
    ".a": ("echo x > git~1", ["git~1"]),
    "-a": ("ln -s README.md .gitmodules", [".gitmodules"]),
    "_": ("rm README.md; mkfifo README.md", []),
    "..a": ("mkfifo .gitattributes", []),
}
"""By names that are allowed for a task: a command, and what its patch leaves out."""


def test_an_odd_file_does_not_keep_the_others_out_of_the_patch(world: World) -> None:
    commit = repository(world.work)
    answering(world, shell)
    tasks = [
        {"id": name, "prompt": f"run: {odd}; echo new > kept.txt", "repo": str(world.work), **OPEN}
        for name, (odd, _) in ODD.items()
    ]
    out = world.home / "out"
    done = batch(world, tasks_file(world, tasks))
    assert done.code == 0 and outcomes(out) == {name: ["done"] for name in ODD}, done
    for line in results(out):
        left_out = ODD[line["id"]][1]
        assert line["patch"]["left_out"] == left_out and bool(line["tree"]) == bool(left_out), line
        found = applied(out / f"tasks/{line['id']}/1/patch.diff", world.work, commit, world.home / "c")
        assert found["kept.txt"] == "new\n"


def test_a_kept_tree_that_somebody_works_in_stays(world: World) -> None:
    repository(world.work)
    answering(world, writes)
    names = ("stashed", "committed", "shell", "left")
    tasks = [
        {"id": name, "prompt": "write f.txt: v", "repo": str(world.work), "verify": "false"} for name in names
    ]
    out = world.home / "out"
    assert batch(world, tasks_file(world, tasks)).code == 8
    trees = {line["id"]: Path(line["tree"]) for line in results(out)}
    (trees["stashed"] / "README.md").write_text("mine\n", encoding="utf-8")
    git(trees["stashed"], "stash", "-u")
    (trees["committed"] / "mine.txt").write_text("mine\n", encoding="utf-8")
    git(trees["committed"], "add", "-A")
    git(trees["committed"], "commit", "-qm", "mine")
    git(trees["committed"], "switch", "-qc", "mine")
    git(trees["committed"], "switch", "-q", "--detach", "HEAD~1")
    with subprocess.Popen(["cat"], cwd=trees["shell"], stdin=subprocess.PIPE) as somebody:
        said = world.run("batch", "clean", str(out)).out
        somebody.communicate(b"")
    assert {name: tree.exists() for name, tree in trees.items()} == {
        "stashed": True, "committed": True, "shell": True, "left": False,
    }, said  # fmt: skip
    assert f"process {somebody.pid} is working in it" in said and "since" in said


@pytest.mark.parametrize(
    "odd",
    [{"prompt": "\ud800"}, {"repo": "a\0b"}, {"env": {"A=B": "x"}}, {"verify": "a\0b"}, {"meta": {"a": "\udfff"}}],
)
def test_values_that_no_program_takes_are_refused_with_their_place(world: World, odd: dict[str, Any]) -> None:
    repository(world.work)
    path = tasks_file(world, [{"id": "one", "prompt": "x", "repo": str(world.work), **odd}])
    done = batch(world, path)
    assert done.code == 2 and f"{path}:1: " in done.err and "Traceback" not in done.err, done
    assert not (world.home / "out").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("filled", [142_000, 150_000, 158_000], ids=["little", "half", "much"])
def test_a_full_disk_loses_no_edit_and_says_what_to_do(world: World, filled: int) -> None:
    commit = repository(world.work)
    answering(world, shell)
    out = world.home / "out"
    out.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o"]
    subprocess.run([*mount, "size=200k", "tmpfs", str(out)], check=True)
    try:
        (out / "fill").write_bytes(b"x" * filled)
        # Both have edited before either is stored.
        both = "; ".join(f"until [ -e {world.home}/t{n} ]; do sleep 0.1; done" for n in range(2))
        tasks = tasks_file(
            world,
            [
                {
                    "id": f"t{n}",
                    "prompt": f"run: yes y | head -c 20000 > f{n}.txt; touch {world.home}/t{n}; {both}",
                    "repo": str(world.work),
                    **OPEN,
                }
                for n in range(2)
            ],
        )
        done = batch(world, tasks, "-j", "2")
        assert done.code == 1 and "No space left on device" in done.err and "Traceback" not in done.err, done
        subprocess.run(["mount", "-o", "remount,size=20m", str(out)], check=True)
        again = batch(world, tasks, "-j", "2")
        assert again.code == 0, again
        assert {(line["id"], line["attempt"]) for line in results(out)} >= {("t0", 1), ("t1", 1)}
        for line in results(out):
            if line["attempt"] > 1 and line["outcome"] == "lost":
                continue  # stopped at once
            name = f"f{line['id'][1:]}.txt"
            patch = out / f"tasks/{line['id']}/{line['attempt']}/patch.diff"
            if line["patch"]:
                found = applied(patch, world.work, commit, world.home / "c")[name]
            else:
                assert line["outcome"] == "crash" and line["tree"] in line["error"]["message"], line
                found = Path(line["tree"], name).read_text(encoding="utf-8")
            assert found == "y\n" * 10_000, line
    finally:
        subprocess.run(["umount", str(out)], check=True)
