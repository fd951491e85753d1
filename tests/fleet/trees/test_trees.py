"""Trees of attempts with real repositories and folders: what they hold, what becomes of it, and what stays as it
was."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_cli.fleet.task import OverlayFile, Task
from agent_cli.fleet.trees.attempt_tree import AttemptTree
from agent_cli.fleet.trees.open_tree import open_tree
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.workspace.worktrees.worktree import WorktreeError
from tests.workspace.worktrees.test_worktrees import git, put

ODD = os.fsdecode(b"odd \xff name\n.txt")


def everything(top: Path) -> dict[str, str]:
    """All files, links and folders below a folder: kind, mode and content."""
    found = {}
    for path in sorted(top.rglob("*")):
        about = path.lstat()
        data = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(top))] = (
            f"{about.st_mode:o} {about.st_nlink} {hashlib.sha256(data).hexdigest()}"
        )
    return found


def files(top: Path) -> dict[str, str]:
    """Files and links of a checkout by path: what git knows of them."""
    found = {}
    for path in top.rglob("*"):
        name = str(path.relative_to(top))
        if (name.startswith(".git") and name != ".gitignore") or (path.is_dir() and not path.is_symlink()):
            continue
        data = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        kind = (
            "l" if path.is_symlink() else "x" if os.access(path, os.X_OK) and path.stat().st_mode & 0o100 else "f"
        )
        found[name] = f"{kind} {hashlib.sha256(data).hexdigest()}"
    return found


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


@pytest.fixture
def repo(base: Path) -> Path:
    repo = base / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    put(repo, "a.txt", "one\ntwo\nthree\n")
    put(repo, "b.txt", "b\n")
    put(repo, "src/run.sh", "#!/bin/sh\n", 0o755)
    put(repo, "data.bin", bytes(range(256)))
    put(repo, ".gitignore", "*.log\nbuild/\n.env\nnode_modules/\n.venv/\n")
    (repo / "link").symlink_to("a.txt")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "one")
    git(repo, "tag", "old")
    put(repo, "a.txt", "the fix\n")
    git(repo, "commit", "-q", "-a", "-m", "the fix of tomorrow")
    return repo


@pytest.fixture
async def runner() -> AsyncIterator[ProcessRunner]:
    runner = ProcessRunner()
    yield runner
    await runner.aclose()


@pytest.fixture
def place(base: Path) -> Path:
    return base / "state" / "worktrees"


def at_old(repo: Path, /, **more: object) -> Task:
    values = {"id": "one", "prompt": "-", "repo": str(repo), "ref": git(repo, "rev-parse", "old").strip(), **more}
    return Task(**values)  # type: ignore[arg-type]


async def opened(
    task: Task, place: Path, runner: ProcessRunner, name: str = "one-1", slot: int = 0
) -> AttemptTree:
    return await open_tree(task, name=name, place=place, slot=slot, run=runner.run)


def changed(top: Path) -> None:
    """Change files in every way a patch must hold."""
    put(top, "a.txt", "one\n2\nthree\nfour\n")
    (top / "b.txt").unlink()
    (top / "src/run.sh").chmod(0o644)
    put(top, "data.bin", bytes(range(255, -1, -1)))
    put(top, "new/" + ODD, "odd\n", 0o755)
    (top / "link").unlink()
    (top / "link").symlink_to("src")
    put(top, "noise.log", "ignored\n")


async def test_a_tree_has_the_files_of_its_commit_and_nothing_of_what_came_later(
    repo: Path, place: Path, runner: ProcessRunner
) -> None:
    put(repo, "a.txt", "uncommitted\n")
    git(repo, "stash", "--quiet")
    put(repo, "untracked.txt", "new\n")
    before = everything(repo)
    task = at_old(repo)
    tree = await opened(task, place, runner)
    path = tree.path
    assert (path / "a.txt").read_text() == "one\ntwo\nthree\n" and not (path / "untracked.txt").exists()
    assert tree.base_commit == task.ref == git(path, "rev-parse", "HEAD").strip()
    assert git(path, "status", "--porcelain") == ""
    assert git(path, "log", "--all", "--reflog", "--format=%s") == "one\n"
    assert git(path, "for-each-ref") == git(path, "stash", "list") == git(path, "remote") == ""
    put(path, "a.txt", "changed\n")
    git(path, "commit", "-q", "-a", "-m", "mine")
    git(path, "branch", "side")
    git(path, "gc", "--quiet", "--prune=now")
    assert everything(repo) == before
    await tree.save_patch(place.parent / "patch.diff")
    await tree.remove()
    assert everything(repo) == before and not list(place.iterdir())


@pytest.mark.parametrize("kind", ["repository", "folder"])
async def test_a_patch_applies_to_the_base_and_gives_the_tree(
    repo: Path, place: Path, runner: ProcessRunner, kind: str, base: Path
) -> None:
    origin = base / "origin"
    shutil.copytree(repo, origin, symlinks=True)
    git(origin, "checkout", "-q", "old")
    task = at_old(repo)
    if kind == "folder":
        shutil.rmtree(origin / ".git")
        task = Task(id="one", prompt="-", repo=str(origin))
    tree = await opened(task, place, runner)
    assert files(tree.path) == files(origin)
    changed(tree.path)
    saved = await tree.save_patch(base / "patch.diff")
    content = (base / "patch.diff").read_bytes()
    assert saved.sha256 == hashlib.sha256(content).hexdigest() and (saved.added, saved.removed) == (4, 3)
    assert len(saved.files) == 6 and "noise.log" not in saved.files
    if kind == "folder":
        git(origin, "init", "-q")
    git(origin, "apply", str(base / "patch.diff"))
    (tree.path / "noise.log").unlink()
    assert files(origin) == files(tree.path)
    await tree.remove()
    assert not list(place.iterdir())


async def test_a_copy_of_a_folder_is_whole_and_its_own(base: Path, place: Path, runner: ProcessRunner) -> None:
    source = base / "plain"
    put(source, "a.txt", "a\n", 0o640)
    put(source, ".gitignore", "deps/\n")
    put(source, "deps/x.txt", "x\n")
    os.link(source / "a.txt", source / "hard")
    (source / "empty").mkdir()
    (source / "away").symlink_to("/etc/hostname")
    os.mkfifo(source / "pipe")
    before = {name: each for name, each in everything(source).items() if name != "pipe"}
    tree = await opened(Task(id="p", prompt="-", repo=str(source)), place, runner)
    put(tree.path, "a.txt", "changed\n")
    assert (tree.path / "hard").read_text() == "a\n" and (tree.path / "a.txt").stat().st_mode & 0o777 == 0o644
    assert os.readlink(tree.path / "away") == "/etc/hostname" and (tree.path / "deps/x.txt").exists()
    assert (tree.path / "empty").is_dir() and tree.base_commit == ""
    assert (await tree.save_patch(base / "p.diff")).files == ("a.txt",)
    await tree.remove()
    (source / "pipe").unlink()
    assert everything(source) == before and not list(place.iterdir())


async def test_only_named_untracked_files_come_along_and_stay_out_of_the_patch(
    repo: Path, place: Path, runner: ProcessRunner, base: Path
) -> None:
    put(repo, "build/cache.bin", "cache", 0o640)
    put(repo, ".env", "SECRET=1")
    put(repo, "notes.txt", "not ignored\n")
    put(repo, ".worktreeinclude", "build/\n*nv\n")
    tree = await opened(at_old(repo, copy=("notes.*",)), place, runner)
    assert (tree.path / "build/cache.bin").stat().st_mode & 0o777 == 0o640
    assert (tree.path / "notes.txt").exists() and not (tree.path / ".env").exists()
    assert git(tree.path, "status", "--porcelain") == ""
    put(tree.path, "notes.txt", "changed\n")
    assert (await tree.save_patch(base / "p.diff")).files == ()
    await tree.remove()
    tree = await opened(at_old(repo, copy=("notes.*",)), place, runner)
    await tree.remove()  # nothing was changed, so nothing need be saved


async def test_a_tree_with_changes_is_removed_only_once_they_are_saved(
    repo: Path, place: Path, runner: ProcessRunner, base: Path
) -> None:
    tree = await opened(at_old(repo), place, runner)
    put(tree.path, "a.txt", "work\n")
    with pytest.raises(WorktreeError, match="neither merged nor saved"):
        await tree.remove()
    await tree.save_patch(base / "p.diff")
    put(tree.path, "later.txt", "more\n")
    with pytest.raises(WorktreeError, match="neither merged nor saved"):
        await tree.remove()
    assert (tree.path / "later.txt").exists()
    assert (await tree.save_patch(base / "p.diff")).files == ("a.txt", "later.txt")
    await tree.remove()
    assert not tree.path.exists()


async def test_files_are_laid_over_through_no_link(
    repo: Path, place: Path, runner: ProcessRunner, base: Path
) -> None:
    tree = await opened(at_old(repo), place, runner)
    outside = put(base, "outside.txt", "outside\n")
    (tree.path / "b.txt").unlink()
    (tree.path / "b.txt").symlink_to(outside)
    (tree.path / "c.txt").hardlink_to(outside)
    (tree.path / "away").symlink_to(base)
    put(tree.path, "folder.sh/x/y", "in the way\n")
    put(tree.path, "file", "in the way\n")
    names = ("b.txt", "c.txt", "tests/new.sh", "away/outside.txt", "folder.sh", "file/x.sh")
    tree.overlay([OverlayFile(name, b"laid\n", True) for name in names])
    assert all((tree.path / name).read_text() == "laid\n" for name in names)
    assert (tree.path / "b.txt").read_text() == "laid\n" and not (tree.path / "b.txt").is_symlink()
    assert os.access(tree.path / "tests/new.sh", os.X_OK) and outside.read_text() == "outside\n"
    for name in ("../x", "/etc/x", "x//y", ".git/config", "sub/.git/hooks/x", ""):
        with pytest.raises(WorktreeError):
            tree.overlay([OverlayFile(name, b"bad")])
    assert outside.read_text() == "outside\n" and not (base / "x").exists()


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"ref": "0" * 40}, "no commit"),
        ({"ref": "main"}, "not the full"),
        ({"repo": "/nowhere/at/all"}, "no git repository"),
        ({"repo": "/nowhere/at/all", "ref": ""}, "not a folder"),
    ],
)
async def test_what_cannot_be_made_leaves_nothing(
    repo: Path, place: Path, runner: ProcessRunner, values: dict[str, str], why: str
) -> None:
    with pytest.raises(WorktreeError, match=why):
        await opened(at_old(repo, **values), place, runner)
    assert not list(place.glob("*/one*")) and not list(place.glob("*/.store/*.draft"))


async def test_variables_tell_slots_apart(repo: Path, place: Path, runner: ProcessRunner) -> None:
    first = await opened(at_old(repo), place, runner, "a", 0)
    second = await opened(at_old(repo), place, runner, "b", 7)
    one, two = first.variables, second.variables
    assert (one["AGENT_TASK_SLOT"], one["AGENT_PORT_BASE"]) == ("0", "20000")
    assert (two["AGENT_TASK_SLOT"], two["AGENT_PORT_BASE"]) == ("7", "20700")
    assert one["COMPOSE_PROJECT_NAME"] != two["COMPOSE_PROJECT_NAME"]
    for name, wanted in (("gc.auto", "0"), ("maintenance.auto", "0")):
        done = subprocess.run(
            ["git", "config", name], cwd=first.path, env={**os.environ, **one}, capture_output=True, check=True
        )
        assert done.stdout.decode().strip() == wanted


async def test_a_patch_holds_what_its_owner_may_not_read(
    repo: Path, place: Path, runner: ProcessRunner, base: Path
) -> None:
    tree = await opened(at_old(repo), place, runner)
    put(tree.path, "closed/inner/x.txt", "x\n", 0)
    put(tree.path, "a.txt", "changed\n", 0o200)
    (tree.path / "closed/inner").chmod(0)
    (tree.path / "closed").chmod(0o500)
    assert (await tree.save_patch(base / "p.diff")).files == ("a.txt", "closed/inner/x.txt")
    await tree.remove()
    assert not list(place.iterdir())
