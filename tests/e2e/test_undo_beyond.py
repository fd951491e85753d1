"""Undo in a workspace of several folders, and what it says of files that lie in none of them."""

import contextlib
import os
import signal
from pathlib import Path
from uuid import uuid4

import pytest

from tests.e2e.world import Done, World, finish, shell, until
from tests.model.server import Call, Reply

WRITTEN = "printf made > made.txt; printf new > '{other}/by shell.txt'; rm '{other}/gone.txt'; printf x > '{other}/sub/a'"


@pytest.fixture
def other(world: World) -> Path:
    """A second folder of the workspace, with `=`, `|` and a blank in its name."""
    folder = world.work.parent / "an other=|folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "edited.txt").write_text("old\n", encoding="utf-8")
    (folder / "gone.txt").write_text("back again\n", encoding="utf-8")
    return folder


def _state(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()}


def _changed(world: World, other: Path, *options: str) -> Done:
    """One turn that changes both folders, by a tool and by a command."""
    world.script(
        Reply(calls=(Call("read_file", {"path": str(other / "edited.txt")}),)),
        Reply(
            calls=(
                Call("edit_file", {"path": str(other / "edited.txt"), "edits": [{"old": "old", "new": "new"}]}),
            )
        ),
        shell(WRITTEN.format(other=other)),
        Reply(text="Done."),
    )
    return world.run("run", "change both", "--mode", "yolo", "--add-dir", str(other), *options)


def test_an_added_folder_is_restored_and_brought_again(world: World, other: Path) -> None:
    before = _state(other)
    done = _changed(world, other, "--output-format", "json")
    assert done.code == 0, done.err
    after = _state(other)
    assert after == {"edited.txt": "new\n", "by shell.txt": "new", "sub/a": "x"}
    paths = {change["path"] for change in done.result["changed_files"]}
    assert paths == {
        "made.txt",
        *(f"{other}/{name}" for name in ("edited.txt", "by shell.txt", "gone.txt", "sub/a")),
    }
    undone = world.run("undo")
    assert undone.code == 0, undone.out
    assert _state(other) == before and not (world.work / "made.txt").exists()
    assert world.run("redo").code == 0
    assert _state(other) == after and (world.work / "made.txt").read_text("utf-8") == "made"


def test_what_the_user_changed_there_since_is_left_alone(world: World, other: Path) -> None:
    _changed(world, other)
    (other / "edited.txt").write_text("mine\n", encoding="utf-8")
    undone = world.run("undo")
    assert undone.code == 1 and f"skipped {other}/edited.txt" in undone.out
    assert _state(other) == {"edited.txt": "mine\n", "gone.txt": "back again\n"}
    assert world.run("undo", "--resolve", "old", f"{other}/edited.txt").code == 0
    assert (other / "edited.txt").read_text("utf-8") == "old\n"


def test_without_git_what_tools_wrote_in_an_added_folder_is_restored(world: World, other: Path) -> None:
    world.script(
        Reply(calls=(Call("write_file", {"path": str(other / "n.txt"), "content": "n"}),)), Reply(text="Done.")
    )
    env = {"PATH": "/nonexistent"}
    done = world.run("run", "write", "--mode", "auto-edit", "--sandbox", "off", "--add-dir", str(other), env=env)
    assert done.code == 0, done.err
    assert (other / "n.txt").exists()
    undone = world.run("undo", env=env)
    assert undone.code == 1 and "git is not installed" in undone.out and not (other / "n.txt").exists()


@pytest.mark.parametrize("nested", ["inside", "around"])
def test_a_folder_inside_or_around_the_workspace_is_saved_once(world: World, nested: str) -> None:
    folder = world.work / "sub" if nested == "inside" else world.work.parent / "around"
    work = world.work if nested == "inside" else folder / "work"
    folder.mkdir()
    work.mkdir(exist_ok=True)
    world.script(shell(f"printf 1 > '{folder}/one'; printf 2 > '{work}/two'"), Reply(text="Done."))
    done = world.run("run", "go", "--mode", "yolo", "--add-dir", str(folder), "--output-format", "json", cwd=work)
    assert len(done.result["changed_files"]) == 2, done.result
    assert world.run("undo", cwd=work).code == 0
    assert not (folder / "one").exists() and not (work / "two").exists()


@pytest.mark.parametrize("how", ["by redirection", "in another directory", "by a tool"])
def test_a_write_outside_is_named_and_undo_says_that_it_stays(world: World, how: str) -> None:
    outside = world.home / "outside.txt"
    replies = {
        "by redirection": shell("echo x > ~/outside.txt; echo y > in.txt"),
        "in another directory": shell("cd ~ && echo x | tee outside.txt"),
        "by a tool": Reply(calls=(Call("write_file", {"path": str(outside), "content": "x"}),)),
    }
    world.script(replies[how], Reply(text="Done."))
    done = world.run("run", "write there", "--mode", "yolo")
    assert done.code == 0 and f"{outside} is outside the workspace" in done.err, done.err
    dry, undone = world.run("undo", "--dry-run"), world.run("undo")
    assert f"would leave alone {outside}: undo does not cover it" in dry.out
    assert undone.code == 1 and f"skipped {outside}: undo does not cover it" in undone.out
    assert outside.exists() and not (world.work / "in.txt").exists()


def test_what_the_sandbox_kept_from_happening_is_not_named(world: World) -> None:
    world.script(shell("echo y > in.txt; echo x > /dev/null; touch /tmp/x"), Reply(text="Done."))
    done = world.run("run", "write there", "--mode", "auto-edit")
    assert "outside the workspace" not in done.err
    assert world.run("undo").code == 0


def test_a_device_is_no_file_that_undo_misses(world: World) -> None:
    line = "echo y > in.txt; cp in.txt /dev/null; curl -so /dev/null http://127.0.0.1:1; wget -qO - http://127.0.0.1:1"
    world.script(shell(line), Reply(text="Done."))
    done = world.run("run", "write there", "--mode", "yolo")
    assert "Undo will not" not in done.err, done.err


def test_a_new_temporary_file_is_not_named_and_one_of_somebody_else_is(world: World) -> None:
    new, old = (Path("/tmp", f"at-{name}-{uuid4().hex}.log") for name in ("new", "old"))
    try:
        old.write_text("kept", encoding="utf-8")
        lines = f"echo 1 > {new}", f"echo 2 > {new}; echo 3 > {old}; cat {new}", f"rm {new}", f"rm {old}"
        world.script(*map(shell, lines), Reply(text="Done."))
        done = world.run("run", "write there", "--mode", "yolo")
        assert f"{old} is outside the workspace" in done.err and f"{new} is outside" not in done.err, done.err
        assert done.code == 6 and world.records("tool_result")[1]["text"].startswith("2\n")
        assert not new.exists() and old.exists()
    finally:
        for path in (new, old):
            path.unlink(missing_ok=True)


def test_a_fork_and_a_deleted_session_share_the_stores_of_added_folders(world: World, other: Path) -> None:
    _changed(world, other)
    before = _state(other)
    (path,) = world.sessions()
    first = world.records("session")[0]["session_id"]
    assert world.run("sessions", "fork", first).code == 0
    assert world.run("sessions", "delete", first, "--yes").code == 0
    stores = [each for each in path.parent.parent.parent.rglob("checkpoints-*") if each.is_dir()]
    assert len(stores) == 1 and _state(other) == before
    (path,) = world.sessions()
    assert world.run("undo").code == 0
    assert _state(other) == {"edited.txt": "old\n", "gone.txt": "back again\n"}
    assert world.run("sessions", "delete", world.records("session")[0]["session_id"], "--yes").code == 0
    assert not stores[0].exists()


def test_an_added_folder_that_could_not_be_saved_is_reported(world: World, other: Path) -> None:
    """A repository that git cannot read stands in the folder's store."""
    _changed(world, other)
    (path,) = world.sessions()
    (store,) = path.parent.parent.parent.rglob("checkpoints-*")
    for file in (store / "objects").rglob("*"):
        if file.is_file():
            file.unlink()
    undone = world.run("undo")
    assert undone.code == 1 and (other / "edited.txt").read_text("utf-8") == "new\n"


def test_a_crash_and_a_resume_without_the_option_keep_the_folder_covered(world: World, other: Path) -> None:
    command = f"printf new > '{other}/edited.txt'; sleep 60"
    world.script(shell(command), Reply(text="Went on."))
    options = ("--mode", "yolo")
    process = world.start("run", "change it", "--add-dir", str(other), *options)
    until(lambda: (other / "edited.txt").read_text("utf-8") == "new")
    process.kill()
    finish(process)
    assert world.run("run", "--continue", "go on", "--mode", "ask").code == 0
    undone = world.run("undo", "--turns", "2")
    assert f"{other}/" in undone.out and undone.code == 1, undone.out


def test_pipes_and_hard_links_that_do_not_come_back_are_named(world: World) -> None:
    os.mkfifo(world.work / "pipe")
    (world.work / "one").write_text("same", encoding="utf-8")
    os.link(world.work / "one", world.work / "two")
    world.script(shell("rm pipe one two"), Reply(text="Done."))
    assert world.run("run", "clean up", "--mode", "yolo").code == 0
    for option in ("--dry-run", "--code"):
        undone = world.run("undo", option)
        assert "pipe: not covered by undo: a named pipe" in undone.out
        assert "hard links are not restored; these are separate files now: one, two" in undone.out
    assert undone.code == 1 and not (world.work / "pipe").exists()
    assert {(world.work / name).read_text("utf-8") for name in ("one", "two")} == {"same"}


def test_an_empty_folder_that_a_killed_command_removed_comes_back_with_old(world: World) -> None:
    (world.work / "empty").mkdir()
    (world.work / "gone").write_text("back", encoding="utf-8")
    world.script(shell("rmdir empty; rm gone; mkdir made; sleep 60"))
    process = world.start("run", "clean up", "--mode", "yolo")
    until(lambda: (world.work / "made").exists())
    process.kill()
    finish(process)
    for pid in world.alive():
        with contextlib.suppress(ProcessLookupError):  # what watches over commands may be quicker
            os.kill(pid, signal.SIGKILL)
    dry = world.run("undo", "--dry-run")
    assert "empty/: changed around a crash" in dry.out
    undone = world.run("undo", "--conflicts", "old")
    assert undone.code == 0, undone.out
    assert (world.work / "empty").is_dir() and (world.work / "gone").read_text("utf-8") == "back"
    assert not (world.work / "made").exists()
    assert world.run("redo").code == 0
    assert not (world.work / "empty").exists() and (world.work / "made").is_dir()
