"""Undo of a session that was resumed in another directory: each turn's files are where the turn changed them."""

from pathlib import Path

import pytest

from agent_cli.store.file_names import id_in
from tests.e2e.world import World, shell
from tests.model.server import Reply

FREELY = ("--mode", "yolo", "--sandbox", "off")


@pytest.fixture
def other(world: World) -> Path:
    """A second directory, in which the session of the first goes on: each turn has added a line to its `f`."""
    other = world.home / "other"
    other.mkdir()
    for folder in (world.work, other):
        (folder / "f").write_text("start\n", encoding="utf-8")
    world.script(shell("echo one >> f"), Reply(text="One."), shell("echo two >> f"), Reply(text="Two."))
    assert world.run("run", "first", *FREELY).code == 0
    done = world.run("run", "second", "--resume", session(world), *FREELY, cwd=other)
    assert done.code == 0 and f"the session began in {world.work} and continues in {other}" in done.err
    return other


def session(world: World) -> str:
    (path,) = world.sessions()
    return id_in(path)


def lines(folder: Path) -> list[str]:
    return (folder / "f").read_text(encoding="utf-8").split()


@pytest.mark.parametrize("home", [True, False], ids=["from the first", "from the second"])
def test_each_turn_is_undone_and_redone_where_it_worked(world: World, other: Path, home: bool) -> None:
    words = ("--session", session(world))
    cwd = world.work if home else other
    for command, expected in (
        ("undo", (["start", "one"], ["start"])),
        ("undo", (["start"], ["start"])),
        ("redo", (["start", "one"], ["start"])),
        ("redo", (["start", "one"], ["start", "two"])),
    ):
        done = world.run(command, *words, cwd=cwd)
        assert (done.code, done.err) == (0, ""), done
        assert (lines(world.work), lines(other)) == expected


def test_without_a_name_nothing_is_restored_in_another_directory(world: World, other: Path) -> None:
    done = world.run("undo")
    assert done.code == 2 and f"`agent undo --session {session(world)}` restores them there" in done.err
    assert (lines(world.work), lines(other)) == (["start", "one"], ["start", "two"])
    assert world.run("undo", "--conversation").code == 0


def test_turns_of_two_directories_are_not_undone_at_once(world: World, other: Path) -> None:
    done = world.run("undo", "--turns", "2", "--session", session(world))
    assert (
        done.code == 1 and f"“first” changed files in {world.work}, and the session is in {other} now" in done.out
    )
    assert (lines(world.work), lines(other)) == (["start", "one"], ["start", "two"])
    assert world.run("undo", "--turns", "2", "--conversation", "--session", session(world)).code == 0


def test_a_deleted_session_leaves_no_checkpoints_in_either(world: World, other: Path) -> None:
    def stores() -> list[Path]:
        return list((world.state / "projects").glob("*/checkpoints"))

    assert len(stores()) == 2
    assert world.run("sessions", "delete", session(world), "--yes").code == 0
    assert stores() == []


def test_a_directory_that_was_renamed_is_undone_where_it_is_now(world: World) -> None:
    (world.work / "f").write_text("start\n", encoding="utf-8")
    world.script(shell("echo one >> f"), Reply(text="One."), shell("echo two >> f"), Reply(text="Two."))
    assert world.run("run", "first", *FREELY).code == 0
    renamed = world.home / "renamed"
    world.work.rename(renamed)
    assert world.run("run", "second", "--resume", session(world), *FREELY, cwd=renamed).code == 0
    done = world.run("undo", "--session", session(world), cwd=renamed)
    assert (done.code, lines(renamed)) == (0, ["start", "one"]), done
    listed = world.run("undo", "--list", "--session", session(world), cwd=renamed)
    assert listed.code == 0 and "first" in listed.out
    assert "which is gone" in world.run("undo", "--session", session(world), cwd=renamed).err


def test_turns_from_before_a_move_are_undone_if_they_changed_no_file(world: World) -> None:
    world.script(
        shell("echo one >> f"), Reply(text="One."), shell("sh -c true"), Reply(text="Two."), shell("echo three >> g"),
        Reply(text="Three."),
    )  # fmt: skip
    assert world.run("run", "first", *FREELY).code == 0
    assert world.run("run", "second", "-c", *FREELY).code == 0
    renamed = world.home / "renamed"
    world.work.rename(renamed)
    refused = world.run("resume", session(world), "--plain", cwd=renamed, text="")
    assert refused.code == 2 and f"worked in {world.work}, which is gone; --cd . continues it here" in refused.err
    done = world.run("run", "third", "--resume", session(world), "--cd", ".", *FREELY, cwd=renamed)
    assert done.code == 0, done
    done = world.run("undo", "--turns", "2", "--session", session(world), cwd=renamed)
    assert done.code == 0 and not (renamed / "g").exists(), done
    resumed = ("resume", session(world), "--cd", ".", "--plain")
    done = world.run(*resumed, cwd=renamed, text="/undo\n")
    said = f"changed files in {world.work}, which is gone; they can be restored when it is back"
    assert said in " ".join(done.out.split())
    assert (renamed / "f").exists()
