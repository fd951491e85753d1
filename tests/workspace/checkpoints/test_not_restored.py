"""What undo cannot bring back as it was is named in its report: pipes, sockets, and names of one file."""

import os
import socket
from pathlib import Path

import pytest

from agent_cli.protocol.events import Conflict
from agent_cli.workspace.checkpoints.types import Move
from tests.workspace.checkpoints.test_checkpoint_coverage import make, sh


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "one").write_text("same", encoding="utf-8")
    os.link(folder / "one", folder / "sub" / "two")
    (folder / "alone").write_text("alone", encoding="utf-8")
    (folder / ".gitignore").write_text("run/\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("place", ["pipe", "new/pipe", "run/pipe"])
async def test_a_removed_pipe_is_named(root: Path, place: str) -> None:
    (root / place).parent.mkdir(exist_ok=True)
    os.mkfifo(root / place)
    checkpoints = make(root)
    before = await checkpoints.take()
    sh(root, f"rm {place}; printf x > alone")
    after = await checkpoints.take()
    expected = Conflict(place, "not covered by undo: a named pipe", decidable=False)
    dry = await checkpoints.carry_out([Move(after, before)], dry_run=True)
    report = await checkpoints.carry_out([Move(after, before)])
    assert dry.conflicts == report.conflicts == (expected,)
    assert [change.path for change in report.restored] == ["alone"]


async def test_a_socket_that_was_made_stays_and_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = make(root)
    before = await checkpoints.take()
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s")
        after = await checkpoints.take()
        report = await checkpoints.carry_out([Move(after, before)])
    assert report.conflicts == (Conflict("s", "not covered by undo: a socket", decidable=False),)


async def test_empty_folders_too_deep_to_save_are_named(root: Path) -> None:
    deep = root / "/".join(["d"] * 60)
    deep.mkdir(parents=True)
    checkpoints = make(root)
    before = await checkpoints.take()
    sh(root, "rm -r d; printf x > alone")
    report = await checkpoints.carry_out([Move(await checkpoints.take(), before)])
    (lost,) = report.conflicts
    assert lost.reason == "not covered by undo: it is too deep" and not lost.decidable
    assert (root / lost.path).parent.is_dir() and str(deep).startswith(str(root / lost.path))


async def test_a_file_in_the_place_of_a_pipe_goes_and_the_pipe_is_named(root: Path) -> None:
    os.mkfifo(root / "p")
    checkpoints = make(root)
    before = await checkpoints.take()
    sh(root, "rm p; printf x > p")
    after = await checkpoints.take()
    report = await checkpoints.carry_out([Move(after, before)])
    assert [change.path for change in report.restored] == ["p"] and not (root / "p").exists()
    assert [conflict.path for conflict in report.conflicts] == ["p"]
    back = await checkpoints.carry_out([Move(before, after)])
    assert (root / "p").read_text("utf-8") == "x" and [change.path for change in back.restored] == ["p"]


async def test_a_pipe_that_is_written_to_is_not_reported(root: Path) -> None:
    os.mkfifo(root / "p")
    checkpoints = make(root)
    before = await checkpoints.take()
    sh(root, "(exec 3<>p; printf x >&3); printf x > alone")
    report = await checkpoints.carry_out([Move(await checkpoints.take(), before)])
    assert report.conflicts == () and report.notes == ()


_COPIES = "hard links are not restored; these are separate files now: {}"


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("rm one sub/two", "one, sub/two"),
        ("rm one", "one, sub/two"),
        ("printf x >> one", "one, sub/two"),
        ("printf x >> alone", ""),
        ("rm one; cp sub/two one", "one, sub/two"),
        ("ln alone more; rm more", ""),
    ],
)
async def test_names_of_one_file_that_come_back_as_several_are_named(root: Path, command: str, names: str) -> None:
    checkpoints = make(root)
    before = await checkpoints.take()
    sh(root, command)
    after = await checkpoints.take()
    expected = (_COPIES.format(names),) if names else ()
    dry = await checkpoints.carry_out([Move(after, before)], dry_run=True)
    report = await checkpoints.carry_out([Move(after, before)])
    assert dry.notes == report.notes == expected
    assert (root / "one").read_text("utf-8") == (root / "sub" / "two").read_text("utf-8") == "same"


@pytest.mark.parametrize("place", ["third", "run/third"])
async def test_a_link_made_between_two_checkpoints_is_known(root: Path, place: str) -> None:
    (root / place).parent.mkdir(exist_ok=True)
    checkpoints = make(root)
    await checkpoints.take()
    await checkpoints.take()
    os.link(root / "alone", root / place)
    before = await checkpoints.take()
    sh(root, f"rm alone {place}")
    report = await checkpoints.carry_out([Move(await checkpoints.take(), before)])
    assert report.notes == (_COPIES.format(f"alone, {place}"),)


async def test_a_link_that_is_gone_before_the_checkpoint_is_forgotten(root: Path) -> None:
    checkpoints = make(root)
    await checkpoints.take()
    sh(root, "rm sub/two")
    before = await checkpoints.take()
    sh(root, "rm one")
    report = await checkpoints.carry_out([Move(await checkpoints.take(), before)])
    assert report.notes == ()


async def test_an_empty_folder_around_a_crash_is_named_and_comes_back_when_asked_for(root: Path) -> None:
    (root / "empty").mkdir()
    checkpoints = make(root)
    before = await checkpoints.take()
    sh(root, "rmdir empty; mkdir made")
    moves = [Move(await checkpoints.take(), before, frozenset())]
    report = await checkpoints.carry_out(moves)
    assert [(each.path, each.decidable) for each in report.conflicts] == [("empty/", True), ("made/", True)]
    assert not (root / "empty").exists() and (root / "made").exists()
    decided = await checkpoints.resolve(moves, "old", ["empty/"], await checkpoints.take())
    assert [change.path for change in decided.restored] == ["empty/"]
    assert (root / "empty").is_dir() and (root / "made").exists()
    await checkpoints.resolve(moves, "old", [], await checkpoints.take())
    assert not (root / "made").exists()
    assert (await checkpoints.carry_out(moves)).conflicts == ()


async def test_a_name_that_other_systems_take_for_gits_folder_is_restored(root: Path) -> None:
    (root / "git~1").write_text("mine", encoding="utf-8")
    checkpoints = make(root)
    before = await checkpoints.take()
    (root / "git~1").write_text("spoiled", encoding="utf-8")
    (root / "new").mkdir(exist_ok=True)
    (root / "new" / "GIT~1").write_text("planted", encoding="utf-8")
    report = await checkpoints.carry_out([Move(await checkpoints.take(), before)])
    assert {change.path for change in report.restored} >= {"git~1", "new/GIT~1"}
    assert (root / "git~1").read_text(encoding="utf-8") == "mine" and not (root / "new" / "GIT~1").exists()


async def test_a_name_that_git_refuses_is_named(root: Path) -> None:
    checkpoints = make(root)
    before = await checkpoints.take()
    (root / ".GIT").mkdir()
    (root / ".GIT" / "config").write_text("planted", encoding="utf-8")
    report = await checkpoints.carry_out([Move(await checkpoints.take(), before)])
    expected = Conflict(".GIT", "not covered by undo: a name that git does not save", decidable=False)
    assert report.conflicts == (expected,)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_what_root_brings_back_in_the_workspace_of_somebody_else_is_theirs_again(root: Path) -> None:
    """Not what others may not read: it may have been a secret of root's."""
    for name in ("open/inner/f", "shut/f", "private"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x", encoding="utf-8")
    (root / "empty").mkdir()
    (root / "shut").chmod(0o700)
    (root / "private").chmod(0o640)
    (root / "program").write_text("x", encoding="utf-8")
    sh(root, "chown -R 1234:1235 . && chmod 4711 program")
    checkpoints = make(root)
    before = await checkpoints.take()
    sh(root, "rm -r open shut private program empty alone")
    report = await checkpoints.carry_out([Move(await checkpoints.take(), before)])
    assert report.notes == ("owners are not restored; these belong to root now: private, program, shut",)
    assert (root / "program").stat().st_mode & 0o7777 == 0o711, "else it would run as root"
    for name in ("open", "open/inner", "open/inner/f", "empty", "alone"):
        assert ((root / name).stat().st_uid, (root / name).stat().st_gid) == (1234, 1235), name
    for name in ("shut", "shut/f", "private"):
        assert (root / name).stat().st_uid == 0, name
