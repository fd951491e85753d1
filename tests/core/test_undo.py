"""Undo and redo: files and conversation, by whatever tool they were changed."""

from pathlib import Path

from agent_cli.protocol.events import OperationFailed, Restored, TurnCompleted
from agent_cli.protocol.operations import Redo, Undo
from tests.model.scripted import Entry, call, say

from .harness import engine


def turns() -> list[Entry]:
    return [
        say(call("write_file", path="a.txt", content="by the agent\n")),
        say("wrote it"),
        say(call("shell", command="printf more >> a.txt; printf x > b; rm -f c; mkdir d; printf y > d/e")),
        say("changed more"),
    ]


async def test_undo_takes_back_what_a_shell_command_changed(tmp_path: Path) -> None:
    async with engine(tmp_path, *turns(), say("ok"), mode="yolo") as it:
        (it.root / "c").write_text("keep me", encoding="utf-8")
        await it.prompt("one")
        second = await it.prompt("two")
        assert isinstance(second, TurnCompleted)
        assert {change.path for change in second.changes} == {"a.txt", "b", "c", "d/e"}

        await it.do(Undo())
        restored = it.of(Restored)[0]
        assert (restored.kind, restored.turns, restored.prompt) == ("undo", 1, "two")
        assert (it.root / "a.txt").read_text(encoding="utf-8") == "by the agent\n"
        assert (it.root / "c").read_text(encoding="utf-8") == "keep me"
        assert sorted(path.name for path in it.root.iterdir()) == ["a.txt", "c"]

        await it.prompt("three")
        texts = [getattr(message, "text", "") for message in it.model.requests[-1].messages]
        assert "one" in texts and "two" not in texts


async def test_redo_is_exact_until_something_new_happens(tmp_path: Path) -> None:
    async with engine(tmp_path, *turns(), say("new"), mode="yolo") as it:
        await it.prompt("one")
        await it.prompt("two")
        await it.do(Undo(turns=2))
        assert list(it.root.iterdir()) == []
        await it.do(Redo())
        assert (it.root / "a.txt").read_text(encoding="utf-8") == "by the agent\nmore"
        assert [m.text for m in it.session.prompts()] == ["one", "two"]
        await it.do(Undo())
        await it.prompt("something new")
        assert isinstance(await it.do(Redo()), OperationFailed)


async def test_undo_step_by_step_and_back_again(tmp_path: Path) -> None:
    async with engine(tmp_path, *turns(), mode="yolo") as it:
        await it.prompt("one")
        await it.prompt("two")
        for expected in (["a.txt"], []):
            await it.do(Undo())
            assert [path.name for path in it.root.iterdir()] == expected
        assert isinstance(await it.do(Undo()), OperationFailed)
        for expected in (["a.txt"], ["a.txt", "b", "d"]):
            await it.do(Redo())
            assert sorted(path.name for path in it.root.iterdir()) == expected


async def test_what_the_user_changed_since_is_left_alone_and_said(tmp_path: Path) -> None:
    async with engine(tmp_path, *turns()[:2], mode="yolo") as it:
        await it.prompt("one")
        (it.root / "a.txt").write_text("mine now", encoding="utf-8")
        await it.do(Undo())
        assert [conflict.path for conflict in it.of(Restored)[0].report.conflicts] == ["a.txt"]
        assert (it.root / "a.txt").read_text(encoding="utf-8") == "mine now"


async def test_a_turn_that_changed_nothing_is_undone_without_touching_a_file(tmp_path: Path) -> None:
    async with engine(tmp_path, say("just words")) as it:
        (it.root / "f").write_text("x", encoding="utf-8")
        await it.prompt("talk")
        (it.root / "f").write_text("y", encoding="utf-8")
        await it.do(Undo())
        assert it.of(Restored)[0].report.conflicts == ()
        assert (it.root / "f").read_text(encoding="utf-8") == "y"


async def test_undo_after_a_restart(tmp_path: Path) -> None:
    async with engine(tmp_path, *turns(), mode="yolo") as it:
        await it.prompt("one")
        await it.prompt("two")
    async with engine(tmp_path, mode="yolo") as it:
        await it.do(Undo())
        assert [path.name for path in it.root.iterdir()] == ["a.txt"]
        assert "+by the agent" in await it.agent.diff()
