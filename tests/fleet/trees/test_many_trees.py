"""Many trees at once beside other gits, what killed creations leave, repositories elsewhere, and an end that harms
nothing."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.fleet.task import is_url
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.workspace.worktrees.create import checkout_around, create
from agent_cli.workspace.worktrees.draft import _Creation
from agent_cli.workspace.worktrees.isolated import create_at_commit
from agent_cli.workspace.worktrees.merge import changed_files
from agent_cli.workspace.worktrees.remove import remove
from agent_cli.workspace.worktrees.worktree import Owner, WorktreeError, record_of, store_of
from tests.fuzz import LEVEL
from tests.workspace.worktrees.test_worktrees import git, put

from .test_trees import at_old, base, everything, opened, place, repo, runner

__all__ = ["base", "place", "repo", "runner"]


MANY = 64 if LEVEL else 12


async def test_many_at_once_beside_other_gits(repo: Path, place: Path, runner: ProcessRunner, base: Path) -> None:
    git(base, "clone", "-q", "--bare", str(repo), "remote.git")
    git(repo, "remote", "add", "origin", str(base / "remote.git"))
    git(repo, "fetch", "-q")
    config, refs = (repo / ".git/config").read_bytes(), git(repo, "for-each-ref")
    task = at_old(repo)
    stop, failed = asyncio.Event(), []

    async def others(*jobs: tuple[str, ...]) -> None:
        round = 0
        while not stop.is_set() or not round:
            round += 1
            for words in jobs:
                line = ["git", *(word.format(round) for word in words)]
                done = await asyncio.to_thread(subprocess.run, line, cwd=repo, capture_output=True, check=False)
                # `git worktree add` writes its entry file by file, over which the other gits stumble.
                if done.returncode and b"theirs-" not in done.stderr:
                    failed.append(f"{words}: {done.stderr.decode()}")

    trees = str(base / "theirs-{}")
    busy = [
        asyncio.create_task(others(("worktree", "add", "-q", "--detach", trees), ("worktree", "remove", trees))),
        asyncio.create_task(others(("fetch", "-q", "origin"), ("gc", "-q", "--prune=now"), ("fsck",))),
    ]
    made = await asyncio.gather(*(opened(task, place, runner, f"t{n % (MANY // 2)}", n) for n in range(MANY)))
    linked = [await create(repo, f"l{n}", place, runner.run) for n in range(4)]
    stop.set()
    await asyncio.gather(*busy)
    assert not failed and len({tree.path for tree in made}) == MANY
    assert all((tree.path / "a.txt").read_text() == "one\ntwo\nthree\n" for tree in made)
    assert all(git(tree.path, "status", "--porcelain") == "" for tree in made[:: MANY // 4])
    assert (repo / ".git/config").read_bytes() == config and git(repo, "for-each-ref") == refs
    assert git(repo, "worktree", "list").count("\n") == 1 + len(linked)
    await asyncio.gather(*(tree.remove() for tree in made))
    from agent_cli.workspace.worktrees.remove import remove

    await asyncio.gather(*(remove(each, runner.run) for each in linked))
    assert (repo / ".git/config").read_bytes() == config and git(repo, "for-each-ref") == refs
    # What the other gits have stumbled over may stay, which is theirs.
    left = [path.name for path in (repo / ".git").rglob("*worktree*") if path.name != "worktrees"]
    entries = [path.name for path in (repo / ".git/worktrees").glob("*") if not path.name.startswith("theirs-")]
    assert not list(place.iterdir()) and not left and not entries


async def test_an_end_harms_nothing_outside(repo: Path, place: Path, runner: ProcessRunner, base: Path) -> None:
    put(repo, "node_modules/x/index.js", "original\n")
    put(repo, "build/data.bin", "built\n")
    before = everything(repo)
    tree = await opened(at_old(repo, deps="none"), place, runner)
    put(tree.path, "build/own.bin", "own\n")
    for name, target in {
        "build/up": "..",
        "build/repo": str(repo),
        "build/root": "/",
        "build/gone": "/gone",
    }.items():
        (tree.path / name).symlink_to(target)
    (tree.path / "node_modules").symlink_to(repo / "node_modules")
    (tree.path / "build/hard").hardlink_to(repo / "build/data.bin")
    (tree.path / "build/locked").mkdir()
    put(tree.path, "build/locked/x", "x").chmod(0)
    (tree.path / "build/locked").chmod(0)
    mounted = tree.path / "build/mounted"
    mounted.mkdir()
    is_mounted = not subprocess.run(
        ["mount", "--bind", repo, mounted], capture_output=True, check=False
    ).returncode
    try:
        saved = await tree.save_patch(base / "p.diff")
        if is_mounted:
            with pytest.raises(WorktreeError, match="is a mount"):
                await tree.remove()
            assert (tree.path / "a.txt").exists()
    finally:
        if is_mounted:
            subprocess.run(["umount", mounted], check=True)
    assert saved.files in ((), ("node_modules",))
    await tree.remove()
    assert not list(place.iterdir())
    assert {name: each.split()[2:] for name, each in everything(repo).items()} == {
        name: each.split()[2:] for name, each in before.items()
    }


async def test_a_tree_of_another_process_or_without_a_record_stays(
    repo: Path, place: Path, runner: ProcessRunner
) -> None:
    tree = await opened(at_old(repo), place, runner)
    record = record_of(tree.path)
    text = record.read_text()
    record.write_text(text.replace(f'"pid": {os.getpid()}', f'"pid": {os.getppid()}').replace(
        '"started": "', '"started": "" , "was": "'))  # fmt: skip
    with pytest.raises(WorktreeError, match="working in"):
        await tree.remove()
    record.unlink()
    with pytest.raises(WorktreeError, match="left alone"):
        await tree.remove()
    record.write_text(text.replace(str(tree.path), str(repo)))
    with pytest.raises(WorktreeError):
        await tree.remove()
    assert (tree.path / "a.txt").exists() and (repo / "a.txt").exists()
    record.write_text(text)
    await tree.remove()


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.workspace.worktrees.isolated import create_at_commit
from agent_cli.workspace.worktrees.create import checkout_around, create
repo, commit, place = sys.argv[1:]
left = 0
async def main():
    runner = ProcessRunner()
    async def run(argv, **how):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return await runner.run(argv, **how)
    if commit:
        await create_at_commit(checkout_around(Path(repo)), commit, "one", Path(place), run)
    else:
        await create(Path(repo), "one", Path(place), run)
    os._exit(0)
for left in range(100):
    if not (pid := os.fork()):
        asyncio.run(main())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code != -signal.SIGKILL:
        print(left)
        sys.exit(code)
"""
"""Creates a tree again and again: killed before its first command, before its second, until it comes to its end."""


@pytest.mark.parametrize("kind", ["commit", "present"])
async def test_what_a_killed_creation_leaves_is_removed_by_the_next(
    repo: Path, place: Path, runner: ProcessRunner, kind: str
) -> None:
    put(repo, ".worktreeinclude", "*.log\n")
    put(repo, "x.log", "log\n")
    commit = git(repo, "rev-parse", "old").strip() if kind == "commit" else ""
    line = [sys.executable, "-c", KILLED, str(repo), commit, str(place)]
    done = await asyncio.to_thread(subprocess.run, line, capture_output=True, check=False)
    assert done.returncode == 0 and int(done.stdout) > 5, done.stderr.decode()
    (home,) = place.iterdir()
    assert sorted(each.name for each in home.iterdir()) == [".store", "one", *(["one.git"] if commit else [])]
    assert not list(store_of(home).glob("*.draft")) and record_of(home / "one").exists()


REMOVED = """
import asyncio, os, signal, sys
from pathlib import Path
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.workspace.worktrees.isolated import create_at_commit
from agent_cli.workspace.worktrees.create import checkout_around
from agent_cli.workspace.worktrees.remove import remove
repo, commit, place, left = sys.argv[1:]
runner, left, counting = ProcessRunner(), int(left), False
def watch(event, arguments):
    global left
    if counting and event in ("os.remove", "os.rmdir", "os.rename"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
async def main():
    global counting
    tree = await create_at_commit(checkout_around(Path(repo)), commit, "one", Path(place), runner.run)
    counting = True
    await remove(tree, runner.run)
    os._exit(0)
asyncio.run(main())
"""


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
async def test_after_a_removal_that_was_killed_trees_are_made_as_before(
    repo: Path, place: Path, runner: ProcessRunner, step: int
) -> None:
    commit, moment = git(repo, "rev-parse", "old").strip(), 0
    while True:
        line = [sys.executable, "-c", REMOVED, str(repo), commit, str(place), str(moment)]
        done = await asyncio.to_thread(subprocess.run, line, capture_output=True, check=False)
        assert done.returncode <= 0, done.stderr.decode()
        tree = await create_at_commit(checkout_around(repo), commit, "two", place, runner.run)
        Path(tree.path, "new.txt").write_text("new\n", encoding="utf-8")
        assert await changed_files(tree, runner.run) == ("new.txt",)
        await remove(tree, runner.run, discard=True)
        if not done.returncode:
            break
        for left in place.glob("*/one*"):
            shutil.rmtree(left)  # of the tree itself: its record is there, and `clean` removes it
        moment += step
    assert moment > 20


@pytest.mark.parametrize("missing", ["HEAD", "config", "objects", "refs"])
async def test_a_store_whose_making_was_killed_is_completed(
    repo: Path, place: Path, runner: ProcessRunner, missing: str
) -> None:
    tree = await create(repo, "one", place, runner.run)
    await asyncio.to_thread(shutil.rmtree if missing in ("objects", "refs") else os.unlink, tree.store / missing)
    assert Path((await create(repo, "two", place, runner.run)).path).is_dir()


async def test_an_entry_without_a_record_is_removed_by_the_next_creation(
    repo: Path, place: Path, runner: ProcessRunner
) -> None:
    import msgspec

    tree = await create(repo, "one", place, runner.run)
    path = Path(tree.path)
    record_of(path).unlink()
    gone = _Creation(Owner(2**22 + 1, "1", os.uname().nodename), "abc")
    (tree.store / "one.draft").write_bytes(msgspec.json.encode(gone))
    (repo / ".git/agent-worktree-abc").mkdir()
    second = await create(repo, "two", place, runner.run)
    assert not path.exists() and os.listdir(repo / ".git/worktrees") == [Path(second.entry).name]
    assert not (repo / ".git/agent-worktree-abc").exists()


@pytest.fixture
def served(repo: Path, base: Path) -> Path:
    git(base, "clone", "-q", "--bare", str(repo), "served.git")
    return base / "served.git"


async def test_a_repository_by_url_is_mirrored_once_without_later_history(
    repo: Path, served: Path, place: Path, runner: ProcessRunner, base: Path
) -> None:
    task = at_old(repo, repo=f"file://{served}")
    trees = await asyncio.gather(*(opened(task, place, runner, f"t{n}", n) for n in range(4)))
    (mirror,) = (place / "mirrors").glob("*.git")
    assert git(mirror, "rev-list", "--all").split() == [task.ref]
    later = subprocess.run(["git", "cat-file", "-e", git(repo, "rev-parse", "main").strip()], cwd=trees[0].path)
    assert later.returncode
    assert {each.inside for each in trees} == {each.path for each in trees}
    put(trees[0].path, "a.txt", "changed\n")
    assert (await trees[0].save_patch(base / "p.diff")).files == ("a.txt",)
    await asyncio.gather(*(tree.remove() for tree in trees))
    assert [each.name for each in place.iterdir()] == ["mirrors"]
    second = at_old(repo, repo=f"file://{served}", ref=git(repo, "rev-parse", "main").strip())
    tree = await opened(second, place, runner)
    assert (tree.path / "a.txt").read_text() == "the fix\n"
    await tree.remove()


async def test_a_bare_repository_will_do_too(repo: Path, served: Path, place: Path, runner: ProcessRunner) -> None:
    before = everything(served)
    tree = await opened(at_old(repo, repo=str(served)), place, runner)
    assert (tree.path / "a.txt").read_text() == "one\ntwo\nthree\n" and tree.inside == tree.path
    await tree.remove()
    assert everything(served) == before


async def test_an_address_that_leads_nowhere_says_so_without_its_password(
    repo: Path, place: Path, runner: ProcessRunner
) -> None:
    with pytest.raises(WorktreeError, match="git fetch failed") as caught:
        await opened(at_old(repo, repo="http://me:hunter2@127.0.0.1:1/x.git"), place, runner)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(WorktreeError, match="git fetch failed"):
        await opened(at_old(repo, repo="file:///nowhere/x.git"), place, runner)


def test_urls_are_told_from_paths() -> None:
    assert all(map(is_url, ("https://h/x.git", "file:///x", "git@h:x/y.git", "ssh://g@h/x")))
    assert not any(map(is_url, ("/a/b", "a/b", "./x:y", "/tmp/a@b:c")))


async def test_checked_out_submodules_are_refused(
    repo: Path, place: Path, runner: ProcessRunner, base: Path
) -> None:
    git(base, "clone", "-q", str(repo), "part")
    git(repo, "submodule", "--quiet", "add", str(base / "part"), "lib/part")
    with pytest.raises(WorktreeError, match="submodules that are checked out"):
        await opened(at_old(repo), place, runner)
