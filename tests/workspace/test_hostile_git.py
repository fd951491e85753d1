"""Repositories that are set to start programs start none, whatever the agent looks for in them."""

import os
import subprocess
from pathlib import Path

import pytest

from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.workspace.checkpoints.discarded_state import named_state
from agent_cli.workspace.checkpoints.git_store import Checkpoints
from agent_cli.workspace.checkpoints.types import Move
from agent_cli.workspace.git.repository import git_folder


def sh(folder: Path, *lines: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_COUNT": "0"}
    command = ["sh", "-ec", "\n".join(lines)]
    return subprocess.run(command, cwd=folder, check=True, env=env, capture_output=True, text=True).stdout


COMMIT = "git -c user.name=n -c user.email=e@e commit -qm 1"


def hostile(folder: Path, mark: Path) -> None:
    """A repository in which git runs a program whenever it can."""
    folder.mkdir(parents=True, exist_ok=True)
    program = f"sh -c 'echo ran >> {mark}; cat'"
    hook = folder / ".git" / "hooks" / "post-index-change"
    sh(
        folder,
        f"git init -q; echo x > f; git add f; {COMMIT}",
        "for key in filter.x.clean filter.x.process filter.x.smudge diff.x.textconv core.fsmonitor diff.external",
        f'do git config $key "{program}"; done; git config alias.status "!echo ran >> {mark}"',
        "echo '* filter=x diff=x' > .gitattributes; mkdir -p .git/info .git/hooks",
        "echo '* filter=x diff=x' > .git/info/attributes",
    )
    hook.write_text(f"#!/bin/sh\necho ran >> {mark}\n", encoding="utf-8")
    hook.chmod(0o755)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def make(root: Path) -> Checkpoints:
    return Checkpoints(root, root.parent / "store", "s1", ProcessRunner().run, timeout_s=90.0)


async def test_a_checkpoint_asks_no_nested_repository_what_has_changed_in_it(root: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    checkpoints = make(root)
    hostile(root / "a" / "sub", mark)
    mark.unlink(missing_ok=True)
    first = await checkpoints.take()
    (root / "a" / "sub" / "f").touch()
    second = await checkpoints.take()
    assert not mark.exists()
    sh(
        root / "a" / "sub",
        "git -c core.fsmonitor=false -c user.name=n -c user.email=e@e commit -qm 2 --allow-empty",
    )
    mark.unlink(missing_ok=True)
    third = await checkpoints.take()
    assert await checkpoints.changes(first, second) == ()
    assert [(each.path, each.kind) for each in await checkpoints.changes(second, third)] == [("a/sub", "modified")]
    assert "nested repository" in (await checkpoints.carry_out([Move(third, second)])).conflicts[0].reason
    assert not mark.exists()


async def test_nor_one_in_the_place_of_a_file_that_tools_wrote(root: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (root / ".gitignore").write_text("out\n", encoding="utf-8")
    (root / "out").write_text("x", encoding="utf-8")
    (root / "kept").write_text("x", encoding="utf-8")
    checkpoints = make(root)
    before = await checkpoints.cover(str(root / "out"), await checkpoints.take())
    for name in ("out", "kept"):
        (root / name).unlink()
        hostile(root / name / "sub", mark)
    (root / ".gitignore").unlink()
    mark.unlink(missing_ok=True)
    for _ in range(3):
        for name in ("out", "kept"):
            (root / name / "sub" / "f").touch()
        after = await checkpoints.take()
    await checkpoints.cover(str(root / "later"), after)
    assert not mark.exists()
    found = {change.path for change in await checkpoints.changes(before, after)}
    assert {"out", "kept", "out/sub", "kept/sub"} <= found


async def test_nor_does_the_projects_own_repository_start_one(root: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    hostile(root, mark)
    mark.unlink(missing_ok=True)
    checkpoints = make(root)
    before = await checkpoints.take()
    (root / "f").write_text("changed\n", encoding="utf-8")
    after = await checkpoints.take()
    await checkpoints.diff(before, after)
    await checkpoints.carry_out([Move(after, before)])
    assert (root / "f").read_text(encoding="utf-8") == "x\n" and not mark.exists()


async def test_what_is_too_large_is_left_out_and_named(root: Path) -> None:
    (root / "small").write_text("one", encoding="utf-8")
    (root / "grown").write_text("one", encoding="utf-8")
    checkpoints = make(root)
    before = await checkpoints.take()
    for name in ("*large[1]", "grown"):
        (root / name).touch()
        os.truncate(root / name, 6 << 30)
    (root / "small").unlink()
    after = await checkpoints.take()
    assert checkpoints.left_out == ("*large[1]", "grown")
    assert [change.path for change in await checkpoints.changes(before, after)] == ["small"]
    await checkpoints.carry_out([Move(after, before)])
    assert (root / "small").exists() and (root / "*large[1]").stat().st_size == 6 << 30


async def test_naming_what_is_staged_and_stashed_starts_nothing(root: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    hostile(root, mark)
    gpg = root / "gpg"
    gpg.write_text(f"#!/bin/sh\necho ran >> {mark}\n", encoding="utf-8")
    gpg.chmod(0o755)
    quiet = "git -c core.fsmonitor=false -c filter.x.process= -c filter.x.clean=cat -c core.hooksPath=/dev/null"
    sh(
        root,
        "signed() { git cat-file commit HEAD | sed '1,/^$/{s/^$/gpgsig -----BEGIN PGP SIGNATURE-----\\n \\n abc\\n"
        " -----END PGP SIGNATURE-----\\n/}'; }",
        "stash=$(signed | git hash-object -t commit -w --stdin --literally)",
        "git update-ref --create-reflog -m 'On main: mine' refs/stash $stash",
        f"git config gpg.program {gpg}; git config log.showSignature true",
        f"echo y > f; {quiet} add f",
    )
    mark.unlink(missing_ok=True)
    said = await named_state(ProcessRunner().run, root)
    assert not mark.exists()
    assert "the stash “On main: mine” is " in said and "git read-tree " in said
    tree = said.split("git read-tree ")[1].split(";")[0]
    assert sh(root, f"git cat-file -p {tree}:f") == "y\n"


async def test_what_is_staged_is_named_though_our_own_folder_is_gone(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sh(root, f"git init -q; echo x > f; git add f; {COMMIT}; echo y > f; git add f")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert "git read-tree" in await named_state(ProcessRunner().run, root)


async def test_a_linked_work_tree_names_its_own_index_and_the_common_stash(root: Path) -> None:
    sh(root, f"git init -q; echo x > f; git add f; {COMMIT}; git worktree add -q ../linked")
    sh(root, "echo z > f; git -c user.name=n -c user.email=e@e stash -q; git pack-refs --all")
    linked = root.parent / "linked"
    sh(linked, "echo y > f; git add f")
    said = await named_state(ProcessRunner().run, linked)
    assert "git stash store" in said and "git read-tree" in said
    assert "git read-tree" not in await named_state(ProcessRunner().run, root)


async def test_a_folder_that_claims_the_repository_of_another_learns_nothing_of_it(
    root: Path, tmp_path: Path
) -> None:
    other = tmp_path / "private"
    other.mkdir()
    sh(other, f"git init -q; echo x > f; git add f; {COMMIT}")
    sh(other, "echo z > f; git -c user.name=n -c user.email=e@e stash push -q -m secret-plan")
    (root / ".git").write_text(f"gitdir: {other}/.git\n", encoding="utf-8")
    assert await named_state(ProcessRunner().run, root) == ""
    (root / ".git").unlink()
    (root / ".git").symlink_to(other / ".git")
    assert await named_state(ProcessRunner().run, root) == ""


def test_a_submodule_and_a_linked_work_tree_are_their_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        sh(tmp_path / name, f"git init -q; echo x > f; git add f; {COMMIT}; git worktree add -q ../linked-{name}")
    sh(tmp_path / "a", "git -c protocol.file.allow=always submodule --quiet add ../b sub")
    for folder in (tmp_path / "a" / "sub", tmp_path / "linked-a"):
        found = git_folder(folder)
        assert found is not None and found.is_its_own and found.own != found.top, found


async def test_git_data_behind_a_link_is_left_alone(root: Path, tmp_path: Path) -> None:
    sh(root, f"git init -q; echo x > f; git add f; {COMMIT}; echo y > f; git add f")
    (root / ".git" / "objects").rename(tmp_path / "objects")
    (root / ".git" / "objects").symlink_to(tmp_path / "objects")
    before = sorted((tmp_path / "objects").rglob("*"))
    assert await named_state(ProcessRunner().run, root) == ""
    assert sorted((tmp_path / "objects").rglob("*")) == before


async def test_a_git_planted_in_the_workspace_is_not_run(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    sh(root, f"git init -q; echo x > f; git add f; {COMMIT}; echo y > f; git add f")
    planted = root / ".venv" / "bin"
    planted.mkdir(parents=True)
    for place in (planted, root):
        (place / "git").write_text(f'#!/bin/sh\necho ran >> {mark}\nexec /usr/bin/git "$@"\n', encoding="utf-8")
        (place / "git").chmod(0o755)
    monkeypatch.chdir(root)
    for search_path in (f"{planted}:{os.environ['PATH']}", f":.:{os.environ['PATH']}"):
        monkeypatch.setenv("PATH", search_path)
        await make(root).take()
        assert "read-tree" in await named_state(ProcessRunner().run, root)
    assert not mark.exists()
