"""What an undo leaves in the user's own git is said, and only that."""

import os
import subprocess
from pathlib import Path

import pytest

from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.workspace.checkpoints.git_store import Checkpoints
from agent_cli.workspace.checkpoints.types import Move
from agent_cli.workspace.checkpoints.user_git_state import UserGitState, note_on

IDENTITY = "-c user.name=n -c user.email=e@e -c core.hooksPath=/dev/null"


def sh(root: Path, script: str) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["sh", "-ec", script.replace("git ", f"git {IDENTITY} ")], cwd=root, check=True, env=env)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    sh(root, "git init -q -b main; printf 1 > a; printf 1 > b; git add a b; git commit -qm one")
    sh(root, "printf 2 > a; git stash -q; printf 3 > a; git stash -q")
    return root


def state(root: Path) -> dict[str, str]:
    return UserGitState(root).state()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("git add b", "not changed: git's index"),
        ("git mv a c", "not changed: git's index"),
        ("git checkout -qb other", "not changed: git's HEAD (before the turn HEAD was {commit} on main)"),
        (
            "git commit -qam two",
            "not changed: git's index and HEAD (before the turn HEAD was {commit} on main; git reset {commit} goes back to it)",
        ),
        ("git checkout -q --detach", "not changed: git's HEAD (before the turn HEAD was {commit} on main)"),
        ("git stash drop -q", "not changed: git's stash"),
        ("git stash drop -q stash@{1}", "not changed: git's stash"),
        ("git status; git diff; git log; touch a; git update-index --refresh || true", ""),
        ("git pack-refs --all; printf new > new", ""),
    ],
)
async def test_what_a_turn_did_to_git_is_named(root: Path, tmp_path: Path, script: str, said: str) -> None:
    checkpoints = Checkpoints(root, tmp_path / "store", "s1", ProcessRunner().run, timeout_s=90.0)
    (root / "b").write_text("2", encoding="utf-8")
    commit = state(root)["head"][:7]
    before = await checkpoints.take()
    sh(root, script)
    report = await checkpoints.carry_out([Move(await checkpoints.take(), before)])
    assert report.notes == ((said.format(commit=commit),) if said else ())


def test_what_the_user_put_back_since_is_not_named(root: Path) -> None:
    before = state(root)
    sh(root, "git checkout -qb other")
    after = state(root)
    assert "HEAD" in note_on([(after, before)], after)
    sh(root, "git checkout -q main")
    assert note_on([(after, before)], state(root)) == ""
    assert note_on([({}, before)], after) == note_on([], after) == ""


@pytest.mark.parametrize(
    "script", ["git commit -q --amend --allow-empty -m mine", "git commit -q --allow-empty -m mine"]
)
def test_a_reset_that_would_drop_what_the_user_committed_is_not_advised(root: Path, script: str) -> None:
    before = state(root)
    sh(root, "git commit -q --allow-empty -m two")
    after = state(root)
    assert "git reset" in note_on([(after, before)], after)
    sh(root, script)
    assert "before the turn HEAD was" in (said := note_on([(after, before)], state(root))) and "reset" not in said
    second = state(root)
    sh(root, "git commit -q --allow-empty -m three")
    said = note_on([(state(root), second), (after, before)], state(root))
    assert "before the turn HEAD was" in said and "reset" not in said


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_index_is_read_in_every_version(root: Path, version: int) -> None:
    extended = "printf x > later; git add -N later;" if version == 3 else ""
    sh(root, f"{extended} git update-index --index-version {version} --force-write-index")
    one = state(root)["index"]
    sh(root, "touch -d '1 hour ago' a b; git update-index --refresh || true")
    assert state(root)["index"] == one
    sh(root, "printf 5 > b; git add b")
    assert state(root)["index"] != one


@pytest.mark.parametrize("data", [b"", b"DIRC", b"DIRC\0\0\0\2\0\0\0\5" + b"x" * 70, b"\0" * 200])
def test_a_broken_index_says_nothing(root: Path, data: bytes) -> None:
    (root / ".git" / "index").write_bytes(data)
    assert "index" not in state(root)


def test_without_a_repository_nothing_is_known(tmp_path: Path) -> None:
    assert UserGitState(tmp_path).state() == {}
