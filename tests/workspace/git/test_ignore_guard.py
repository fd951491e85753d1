"""Ignore files that never end are named instead of being read for ever."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.workspace.checkpoints.git_store import Checkpoints
from agent_cli.workspace.checkpoints.types import CheckpointError
from agent_cli.workspace.git.ignore_guard import (
    FOR_GIT,
    FOR_RIPGREP,
    BadIgnoreFile,
    bad_ignore_file,
    unless_held_up,
)


def test_what_cannot_be_read_to_its_end_is_found_wherever_it_counts(tmp_path: Path) -> None:
    top = tmp_path / "repo" / "a"
    (top / "b" / ".git" / "info").mkdir(parents=True)
    (tmp_path / "repo" / ".git" / "info").mkdir(parents=True)
    (top / ".gitignore").write_text("x\n", encoding="utf-8")
    (top / "b" / ".ignore").symlink_to("../.gitignore")
    assert bad_ignore_file(top, FOR_RIPGREP) == ""
    for name in ("b/.gitignore", ".rgignore", "b/.git/info/exclude", "../.git/info/exclude", "../.ignore"):
        place = top / name
        os.mkfifo(place)
        assert bad_ignore_file(top, FOR_RIPGREP) == f"{place.resolve()} is not a regular file", name
        place.unlink()
        place.symlink_to("/dev/zero")
        assert "is not a regular file" in bad_ignore_file(top, FOR_RIPGREP), name
        place.unlink()
        place.touch()
        os.truncate(place, 6 << 30)
        assert "is larger than" in bad_ignore_file(top, FOR_RIPGREP), name
        place.unlink()


async def test_work_that_takes_long_ends_only_for_a_reason(tmp_path: Path) -> None:
    stopped = []

    async def work(takes_s: float) -> str:
        try:
            await asyncio.sleep(takes_s)
        except asyncio.CancelledError:
            stopped.append(takes_s)
            raise
        return "done"

    assert await unless_held_up(work(2.2), tmp_path) == "done"
    os.mkfifo(tmp_path / ".ignore")
    assert await unless_held_up(work(0), tmp_path, FOR_RIPGREP) == "done"
    assert await unless_held_up(work(2.2), tmp_path) == "done", "git does not read it"
    with pytest.raises(BadIgnoreFile, match=r"\.ignore is not a regular file"):
        await unless_held_up(work(60), tmp_path, FOR_RIPGREP)
    assert stopped == [60]


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes"])
async def test_a_checkpoint_does_not_wait_for_a_pipe(tmp_path: Path, name: str) -> None:
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "work" / "sub" / "file").touch()
    os.mkfifo(tmp_path / "work" / "sub" / name)
    checkpoints = Checkpoints(tmp_path / "work", tmp_path / "store", "s1", ProcessRunner().run, timeout_s=60.0)
    with pytest.raises(CheckpointError, match=f"{name} is not a regular file"):
        await checkpoints.take()


async def test_a_checkpoint_names_the_pattern_if_git_would_match_it_for_minutes(tmp_path: Path) -> None:
    deep = tmp_path / "work" / "/".join(["a" * 8] * 24)
    deep.mkdir(parents=True)
    for name in "abcdef":
        (deep / name).touch()
    ignore = tmp_path / "work" / ".gitignore"
    ignore.write_text("*.log\n" + "**/*a*a*a*a*/" * 6 + "zz\n", encoding="utf-8")
    checkpoints = Checkpoints(tmp_path / "work", tmp_path / "store", "s1", ProcessRunner().run, timeout_s=60.0)
    slow = r"gitignore:2 has more than 4 `\*\*`"
    assert re.search(slow, bad_ignore_file(tmp_path / "work", FOR_GIT))
    try:
        await checkpoints.take()
    except CheckpointError as error:  # later versions of git are quick about it
        assert re.search(slow, str(error))
