"""Which folders of git are opened to commands, and which never, whatever a file of the workspace says."""

import os
import subprocess
from pathlib import Path

import pytest

from agent_cli.workspace.git.repository import GitPlaces, git_places


def git(folder: Path, *words: str) -> None:
    always = "-c user.name=T -c maintenance.auto=false -c user.email=t@example.org -c protocol.file.allow=always".split()
    subprocess.run(["git", *always, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = Path(os.path.realpath(tmp_path))
    (base / "work").mkdir()
    for name in ("repo", "victim"):
        git(base, "init", "-q", name)
        git(base / name, "commit", "-q", "--allow-empty", "-m", "one")
    return base


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_repository_of_its_own_or_around_it_is_opened(base: Path) -> None:
    (base / "repo/a/b").mkdir(parents=True)
    for folder in (base / "repo", base / "repo/a/b"):
        found = git_places(str(folder))
        assert found.writable == (str(base / "repo/.git"),) and found.repository == str(base / "repo/.git")
        assert {str(base / "repo/.git/hooks"), str(base / "repo/.git/config")} <= set(found.guarded)
    assert git_places(str(base / "work")) == GitPlaces()


@pytest.mark.parametrize("inside", [False, True])
def test_a_linked_work_tree_opens_its_own_folder_and_what_is_shared(base: Path, inside: bool) -> None:
    tree = base / ("repo/trees/t" if inside else "t")
    git(base / "repo", "worktree", "add", "-q", str(tree))
    found = git_places(str(tree))
    common = base / "repo/.git"
    assert {str(common / "worktrees/t"), str(common / "objects"), str(common / "refs")} <= set(found.writable)
    assert str(common) not in found.writable and found.repository == str(common)
    assert {str(tree / ".git"), str(common / "config"), str(common / "hooks")} <= set(found.guarded)


def test_a_submodule_opens_its_folder_in_the_repository_around(base: Path) -> None:
    git(base / "repo", "submodule", "--quiet", "add", str(base / "victim"), "deep/name")
    own = str(base / "repo/.git/modules/deep/name")
    assert git_places(str(base / "repo/deep/name")).writable == (own,)
    git(base / "repo/deep/name", "worktree", "add", "-q", str(base / "t"))
    assert git_places(str(base / "t")).repository == own


def test_a_folder_that_passes_for_a_work_tree_opens_no_other_repository(base: Path) -> None:
    work, victim = base / "work", base / "victim"
    git_file, closed = work / ".git", GitPlaces(guarded=(str(work / ".git"),))
    for own in (work / "fake", work / "worktrees/fake", base / "fake", base / "worktrees/fake"):
        write(git_file, f"gitdir: {own}\n")
        write(own / "gitdir", f"{git_file}\n")
        write(own / "commondir", f"{victim / '.git'}\n")
        assert git_places(str(work)) == closed
    write(git_file, f"gitdir: {victim / '.git'}\n")
    assert git_places(str(work)) == closed
    git(victim, "worktree", "add", "-q", str(base / "theirs"))
    write(git_file, f"gitdir: {victim / '.git/worktrees/theirs'}\n")
    assert git_places(str(work)) == closed


def test_what_lies_in_the_workspace_itself_or_leads_out_by_a_link_is_not_opened(base: Path) -> None:
    work = base / "work"
    (work / "sub").mkdir()
    (work / "worktrees").symlink_to(base / "victim/.git")
    write(work / ".git", "gitdir: common/worktrees/x\n")
    write(work / "common/worktrees/x/gitdir", str(work / ".git"))
    write(work / "common/worktrees/x/commondir", "../..")
    assert git_places(str(work / "sub")).writable == ()
    write(work / ".git", "gitdir: worktrees\n")
    assert git_places(str(work)).writable == ()


def test_a_submodule_that_names_a_shared_folder_opens_nothing(base: Path) -> None:
    git(base / "repo", "submodule", "--quiet", "add", str(base / "victim"), "name")
    write(base / "repo/.git/modules/name/commondir", str(base / "victim/.git"))
    assert git_places(str(base / "repo/name")).writable == ()


@pytest.mark.parametrize("kind", ["pipe", "device", "link", "long", "nul"])
def test_what_is_no_plain_file_is_neither_waited_for_nor_followed(base: Path, kind: str) -> None:
    marker = base / "work/.git"
    match kind:
        case "pipe":
            os.mkfifo(marker)
        case "device" if os.getuid() == 0:
            os.mknod(marker, 0o20600, os.makedev(1, 5))
        case "link":
            marker.symlink_to(base / "victim/.git")
        case "nul":
            marker.write_bytes(b"gitdir: a\0b")
        case _:
            marker.write_bytes(b"gitdir: " + b"x" * 1_000_000)
    assert git_places(str(base / "work")).writable == ()
