"""The repository is read with nothing of its settings, and left as it was."""

from pathlib import Path

import pytest

from agent_cli.review.git_reader import ReviewError
from agent_cli.review.material import Selection
from tests.review.repository import committed, git, material_of, put, reader
from tests.rows import each_row


def state(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


async def test_nothing_that_settings_name_is_run_and_nothing_is_written(tmp_path: Path) -> None:
    work, proof = tmp_path / "work", tmp_path / "proof"
    committed(
        work, {"a.py": "1\n", "b.txt": "1\n", ".gitattributes": "*.py diff=evil filter=evil\n*.txt merge=evil"}
    )
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\necho $0 $@ >> {proof}\ncat\n")
    program.chmod(0o755)
    for key in (
        "diff.external", "diff.evil.command", "diff.evil.textconv", "filter.evil.clean", "filter.evil.smudge",
        "core.fsmonitor", "core.pager", "core.alternateRefsCommand", "alias.diff-tree", "uploadpack.packObjectsHook",
    ):  # fmt: skip
        git(work, "config", key, str(program))
    hook = work / ".git" / "hooks" / "post-index-change"
    hook.write_text(f"#!/bin/sh\necho hook >> {proof}\n")
    hook.chmod(0o755)
    put(work, {"a.py": "2\n", "b.txt": "2\n", "new.py": "3\n"})
    before = state(work)
    found = await material_of(work, Selection("uncommitted"))
    assert {each.path for each in found.files} == {"a.py", "b.txt", "new.py"}
    assert not proof.exists() and state(work) == before


async def test_what_is_staged_new_deleted_and_ignored(tmp_path: Path) -> None:
    committed(tmp_path, {"a.py": "1\n", "gone.py": "gone\n", ".gitignore": "*.log\n"})
    put(tmp_path, {"a.py": "2\n", "new.py": "1\n", "x.log": "1\n"})
    git(tmp_path, "add", "new.py")
    (tmp_path / "gone.py").unlink()
    (tmp_path / "link").symlink_to("a.py")
    found = await material_of(tmp_path)
    assert {each.path for each in found.files} == {"a.py", "new.py", "gone.py", "link"}
    assert found.target.kind == "uncommitted" and found.is_work_tree


async def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    put(tmp_path, {"a.py": "1\n"})
    found = await material_of(tmp_path)
    assert [each.path for each in found.files] == ["a.py"] and found.target.head == ""


async def test_a_conflict_is_read_as_the_file_is(tmp_path: Path) -> None:
    committed(tmp_path, {"a.py": "1\n"})
    git(tmp_path, "switch", "-qc", "other")
    committed(tmp_path, {"a.py": "2\n"})
    git(tmp_path, "switch", "-q", "main")
    committed(tmp_path, {"a.py": "3\n"})
    with pytest.raises(Exception, match="non-zero exit"):
        git(tmp_path, "merge", "other")
    found = await material_of(tmp_path, Selection("uncommitted"))
    assert "+<<<<<<< HEAD" in found.parts[0]


async def test_submodules_are_not_looked_into(tmp_path: Path) -> None:
    inner, work, proof = tmp_path / "inner", tmp_path / "work", tmp_path / "proof"
    committed(inner, {"x": "1\n"})
    committed(work, {"a.py": "1\n"})
    git(work, "submodule", "add", "-q", str(inner), "sub")
    git(work, "commit", "-qm", "sub")
    git(work / "sub", "config", "core.fsmonitor", f"touch {proof};")
    put(work, {"a.py": "2\n", "sub/x": "2\n", "nested/y": "1\n"})
    git(work / "nested", "init", "-q")
    found = await material_of(work, Selection("uncommitted"))
    assert [each.path for each in found.files] == ["a.py"] and not proof.exists()
    assert [(each.path, each.reason) for each in found.omitted] == [("nested", "a repository of its own")]


@each_row("ref", ["nothing", "--upload-pack=x", "HEAD:a.py", "a b", ""])
async def test_what_is_no_commit(tmp_path: Path, ref: str) -> None:
    committed(tmp_path, {"a.py": "1\n"})
    with pytest.raises(ReviewError, match="no such commit"):
        await material_of(tmp_path, Selection("base", ref))


async def test_no_repository(tmp_path: Path) -> None:
    with pytest.raises(ReviewError, match="is not in a git repository"):
        await material_of(tmp_path)


async def test_the_repository_of_another_folder_is_not_read(tmp_path: Path) -> None:
    committed(tmp_path / "other", {"secret": "1\n"})
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".git").write_text(f"gitdir: {tmp_path}/other/.git\n")
    with pytest.raises(ReviewError, match="leads to the repository of another folder"):
        await material_of(tmp_path / "work")


async def test_a_linked_worktree_has_its_own_head_and_the_shared_refs(tmp_path: Path) -> None:
    committed(tmp_path / "work", {"a.py": "1\n"})
    git(tmp_path / "work", "worktree", "add", "-q", "-b", "topic", str(tmp_path / "linked"))
    commit = committed(tmp_path / "linked", {"a.py": "2\n"})
    found = await material_of(tmp_path / "linked")
    assert (found.target.kind, found.target.head) == ("base", commit)


@pytest.mark.parametrize("path", ["x blob", "./a.py", "a/../a.py", "../a.py"])
async def test_odd_paths_have_no_text(tmp_path: Path, path: str) -> None:
    commit = committed(tmp_path, {"a.py": "1\n", "b c blob": "2\n"})
    async with reader(tmp_path) as git:
        assert await git.text(commit, path) is None and await git.text(commit, "b c blob") == "2\n"


async def test_a_tree_is_checked_out(tmp_path: Path) -> None:
    commit = committed(tmp_path / "work", {"a/b.py": "1\n"})
    (tmp_path / "out").mkdir()
    async with reader(tmp_path / "work") as git:
        await git.check_out(await git.tree(commit), tmp_path / "out")
    assert (tmp_path / "out" / "a" / "b.py").read_text() == "1\n"
