"""Cleaning: the oldest that may go, down to a bound, and nothing else."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.workspace.worktrees.clean import clean_worktrees, list_worktrees
from agent_cli.workspace.worktrees.create import create
from agent_cli.workspace.worktrees.merge import save_patch
from agent_cli.workspace.worktrees.worktree import Worktree, record_of

from .test_worktrees import put, repo, runner, trees

__all__ = ["repo", "runner", "trees"]


async def several(repo: Path, trees: Path, runner: ProcessRunner) -> dict[str, Worktree]:
    """Make worktrees of every kind, one second older than the next."""
    found = {
        name: await create(repo, name, trees, runner.run) for name in ("old", "dirty", "saved", "new", "living")
    }
    put(Path(found["dirty"].path), "a.txt", "work\n")
    put(Path(found["saved"].path), "a.txt", "work\n")
    await save_patch(found["saved"], trees.parent / "saved.diff", runner.run)
    for number, each in enumerate(found.values()):
        put(Path(each.path), "big.log", b"x" * 100_000)
        os.utime(record_of(Path(each.path)), (1000 + number, 1000 + number))
    record = record_of(Path(found["living"].path))
    record.write_text(
        record.read_text().replace(f'"pid": {os.getpid()}', f'"pid": {os.getppid()}').replace(
            f'"started": "{found["living"].owner.started}"', '"started": ""')
    )  # fmt: skip
    os.utime(record, (1004, 1004))
    return found


@pytest.fixture
def foreign(trees: Path) -> Iterator[None]:
    yield
    assert all((home / "theirs" / "x.txt").read_text() == "theirs\n" for home in trees.iterdir())


async def test_what_may_go_goes_the_oldest_first_down_to_a_bound(
    repo: Path, trees: Path, runner: ProcessRunner, foreign: None
) -> None:
    found = await several(repo, trees, runner)
    put(Path(found["old"].path).parent, "theirs/x.txt", "theirs\n")
    infos = await list_worktrees(trees, runner.run)
    assert [each.name for each in infos] == ["old", "dirty", "saved", "new", "living", "theirs"]
    assert [each.name for each in infos if not each.stays] == ["old", "saved", "new"]
    assert [each.name for each in infos if each.is_in_use] == ["living"]
    assert all(each.size_bytes > 100_000 for each in infos[:5])
    total = sum(each.size_bytes for each in infos)
    assert not (await clean_worktrees(trees, runner.run, keep_bytes=total)).removed
    dry = await clean_worktrees(trees, runner.run, keep_bytes=total - 150_000, dry_run=True)
    assert [each.name for each in dry.removed] == ["old", "saved"] and Path(found["old"].path).exists()
    done = await clean_worktrees(trees, runner.run, keep_bytes=total - 150_000)
    assert done.removed == dry.removed and done.left_bytes <= total - 150_000
    assert [each.name for each in (await clean_worktrees(trees, runner.run)).removed] == ["new"]
    left = (await clean_worktrees(trees, runner.run)).left
    assert [(each.name, bool(each.stays)) for each in left] == [
        ("dirty", True),
        ("living", True),
        ("theirs", True),
    ]
    assert (Path(found["dirty"].path) / "a.txt").read_text() == "work\n"


async def test_a_worktree_that_a_process_stands_in_stays(repo: Path, trees: Path, runner: ProcessRunner) -> None:
    one = await create(repo, "one", trees, runner.run)
    standing = await runner.start(["sleep", "1000"], cwd=Path(one.path, "src"), env={}, on_output=bytes)
    (left,) = (await clean_worktrees(trees, runner.run)).left
    assert left.is_in_use and left.stays == f"process {standing.pid} is working in it" and Path(one.path).exists()
    await standing.stop()
    assert len((await clean_worktrees(trees, runner.run)).removed) == 1
