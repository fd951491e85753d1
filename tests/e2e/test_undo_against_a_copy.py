"""Undo against a copy: after a turn that edits through every tool and through commands, `agent undo` gives back what
a copy made before holds, path for path, and `agent redo` what the turn left."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.world import World, shell
from tests.model.server import Call, Reply
from tests.workspace.trees import git_data, whole_picture

PATCH = "--- a/patched.txt\n+++ b/patched.txt\n@@ -1,2 +1,2 @@\n-one\n+eins\n two\n"
COMMANDS = (
    "sed -i s/old/new/ src/main.py",
    "git mv src/util.py src/tools.py || mv src/util.py src/tools.py",
    "rm -r doomed",
    "python3 - <<'EOF'\nopen('made.bin', 'wb').write(bytes(range(256)))\nopen('src/main.py', 'a').write('# end\\n')\nEOF",
    "chmod 700 run.sh; chmod 600 src/main.py; chmod 750 src",
    "ln -s src link; ln -sfn elsewhere old-link",
    "mkdir -p hollow/deep; rmdir empty",
    "printf 'KEY=2\\n' > .env; printf x >> app.log",
    "rm -r cafe; printf 'a file now' > cafe",
)


@pytest.fixture
def work(world: World) -> Path:
    """A workspace with a bit of everything."""
    root = world.work
    for name, text in {
        "src/main.py": "old\n", "src/util.py": "def f(): ...\n", "doomed/a/b": "b", "doomed/c": "\0\1", "run.sh": "#!/bin/sh\n",
        "patched.txt": "one\ntwo\n", "edited.txt": "alpha\r\nbeta\r\n", ".env": "KEY=1\n", "app.log": "l\n",
        ".gitignore": ".env\n*.log\n", "cafe/f": "f", "untouched": "u",
    }.items():  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    (root / "run.sh").chmod(0o755)
    (root / "old-link").symlink_to("src/main.py")
    (root / "empty").mkdir(mode=0o700)
    return root


def in_git(root: Path) -> None:
    """A repository with a commit, staged and unstaged changes, a stash and untracked files."""
    identity = "git -c user.name=n -c user.email=e@e"
    script = f"""git init -q; git add -A; {identity} commit -qm first
    printf stashed > untouched; {identity} stash -q
    printf staged > untouched; git add untouched; printf later >> untouched; printf new > untracked"""
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["sh", "-ec", script], cwd=root, check=True, env=env)


def edit_through_everything(world: World, commands: tuple[str, ...] = COMMANDS) -> None:
    world.script(
        Reply(calls=(Call("write_file", {"path": "brand/new.txt", "content": "new\n"}),)),
        Reply(calls=(Call("read_file", {"path": "edited.txt"}), Call("read_file", {"path": "patched.txt"}))),
        Reply(calls=(Call("edit_file", {"path": "edited.txt", "edits": [{"old": "beta", "new": "gamma"}]}),)),
        Reply(calls=(Call("apply_patch", {"patch": PATCH}),)),
        *map(shell, commands),
        Reply(text="Done."),
    )
    done = world.run("run", "change all", "--mode", "yolo", "--sandbox", "off")
    assert done.code == 0, done.err
    assert {record["status"] for record in world.records("tool_result")} == {"ok"}, world.records("tool_result")


@pytest.mark.parametrize("repository", [True, False], ids=["in git", "outside git"])
def test_undo_gives_back_the_copy_and_redo_what_the_turn_left(world: World, work: Path, repository: bool) -> None:
    if repository:
        in_git(work)
    copy = world.home / "copy"
    shutil.copytree(work, copy, symlinks=True)
    start = whole_picture(work)
    edit_through_everything(world)
    end = whole_picture(work)
    data = git_data(work / ".git") if repository else {}
    undone = world.run("undo")
    note = "  note: not changed: git's index\n"
    assert (undone.code, undone.err, note in undone.out) == (repository, "", repository), undone.out
    assert whole_picture(work) == start
    differing = subprocess.run(
        ["diff", "-r", "--no-dereference", "-x", ".git", str(copy), str(work)], capture_output=True, text=True
    )
    assert (differing.returncode, differing.stdout) == (0, "")
    redone = world.run("redo")
    assert (redone.code, redone.err) == (0, "") and whole_picture(work) == end
    assert not repository or git_data(work / ".git") == data


def test_index_head_refs_and_stash_stay_byte_for_byte(world: World, work: Path) -> None:
    in_git(work)
    data = git_data(work / ".git")
    edit_through_everything(world, tuple(each for each in COMMANDS if "git" not in each))
    assert world.run("undo").code == 0 and world.run("redo").code == 0
    assert git_data(work / ".git") == data


def test_what_the_user_edits_in_between_stays_and_is_named(world: World, work: Path) -> None:
    edit_through_everything(world)
    (work / "src" / "main.py").write_text("mine\n", encoding="utf-8")
    (work / "mine.txt").write_text("mine\n", encoding="utf-8")
    dry = world.run("undo", "--dry-run")
    assert "would leave alone src/main.py: modified after this turn" in dry.out and dry.code == 0
    undone = world.run("undo")
    assert undone.code == 1 and "skipped src/main.py: modified after this turn" in undone.out
    assert (work / "src" / "main.py").read_text(encoding="utf-8") == "mine\n" and (work / "mine.txt").exists()
    assert (work / "src" / "util.py").exists() and (work / "doomed" / "a" / "b").exists()
    taken = world.run("undo", "--resolve", "take")
    assert (taken.code, (work / "src" / "main.py").read_text(encoding="utf-8")) == (0, "old\n"), taken
    assert (work / "mine.txt").exists()
    world.run("redo")
    assert (work / "src" / "main.py").read_text(encoding="utf-8") == "mine\n"


def test_a_turn_that_changed_nothing_undoes_nothing(world: World, work: Path) -> None:
    world.script(shell("true"), Reply(text="Nothing to do."))
    assert world.run("run", "look", "--mode", "yolo").code == 0
    (work / "untouched").write_text("mine", encoding="utf-8")
    start = whole_picture(work)
    assert world.run("undo").out == "Undid: look\n"
    assert whole_picture(work) == start


def test_a_snapshot_that_failed_makes_undo_fail_and_say_so(world: World, work: Path) -> None:
    world.script(shell("true"), Reply(text="1"), shell("rm -r src"), Reply(text="2"))
    world.run("run", "begin", "--mode", "yolo")
    (project,) = (world.state / "projects").iterdir()
    shutil.rmtree(project / "checkpoints")
    (project / "checkpoints").write_bytes(b"in the way")
    done = world.run("run", "-c", "break it", "--mode", "yolo")
    assert "This turn cannot be undone" in done.err
    undone = world.run("undo")
    assert undone.code == 1 and "its checkpoint is incomplete" in undone.out and not (work / "src").exists()
    assert world.run("undo", "--conversation").code == 0


@pytest.mark.long
def test_random_commands_are_undone_exactly(world: World, work: Path) -> None:
    rng = random.Random(7)
    for turn in range(8):
        start = whole_picture(work)
        names = [
            str(path.relative_to(work))
            for path in sorted(work.rglob("*"))
            if path.is_file() and path.name != ".env"
        ]
        some = rng.sample(names, min(3, len(names)))
        edits = (
            f"printf {turn} >> '{some[0]}'",
            f"rm -f '{some[1]}'",
            f"mkdir -p d{turn}/e; mv '{some[2]}' d{turn}/",
        )
        world.script(*map(shell, edits), Reply(text="ok"))
        assert world.run("run", *(("-c",) if turn else ()), f"turn {turn}", "--mode", "yolo").code == 0
        end = whole_picture(work)
        assert world.run("undo").code == 0 and whole_picture(work) == start
        assert world.run("redo").code == 0 and whole_picture(work) == end
