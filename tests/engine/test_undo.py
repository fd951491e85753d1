"""Undo and redo: files and conversation, by whatever tool they were changed."""

import asyncio
from pathlib import Path

from agent_cli.protocol.events import (
    AnswerCompleted,
    Notice,
    OperationFailed,
    Restored,
    ToolCallFinished,
    TurnCompleted,
)
from agent_cli.protocol.operations import Interrupt, Redo, Resolve, Undo, UserInput
from agent_cli.protocol.records import CheckpointTaken, TurnEnded
from agent_cli.store.session_file import read_session
from tests.engine.harness import engine
from tests.model.scripted import Entry, call, fail, say


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


async def test_files_in_caches_are_named_last(tmp_path: Path) -> None:
    command = "mkdir -p __pycache__ d/.pytest_cache; touch __pycache__/x.pyc d/.pytest_cache/y z"
    async with engine(tmp_path, say(call("shell", command=command)), say("done"), mode="yolo") as it:
        await it.prompt("go")
        await it.do(Undo())
        named = [change.path for change in it.of(Restored)[0].report.restored]
        assert named == ["z", "__pycache__/x.pyc", "d/.pytest_cache/y"]


async def test_a_cache_that_ignores_itself_is_no_change(tmp_path: Path) -> None:
    first = "mkdir -p .pytest_cache/v; echo '*' > .pytest_cache/.gitignore; touch .pytest_cache/v/x z"
    second = "echo 1 > .pytest_cache/v/x; echo 1 > z"
    script = say(call("shell", command=first)), say("done"), say(call("shell", command=second)), say("done")
    async with engine(tmp_path, *script, mode="yolo") as it:
        for _ in range(2):
            ended = await it.prompt("run the tests")
            assert isinstance(ended, TurnCompleted) and [change.path for change in ended.changes] == ["z"]


async def test_redo_is_exact_until_something_new_happens(tmp_path: Path) -> None:
    async with engine(tmp_path, *turns(), say("new"), mode="yolo") as it:
        await it.prompt("one")
        await it.prompt("two")
        await it.do(Undo(turns=2))
        assert list(it.root.iterdir()) == []
        await it.do(Redo())
        assert (it.root / "a.txt").read_text(encoding="utf-8") == "by the agent\nmore"
        assert [m.text for m in it.session.view.prompts] == ["one", "two"]
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


async def test_a_turn_that_carries_on_is_undone_with_its_prompt(tmp_path: Path) -> None:
    script = [fail("auth"), say(call("write_file", path="a", content="x")), say("done")]
    async with engine(tmp_path, *script, mode="yolo") as it:
        await it.prompt("do it")
        await it.prompt("")
        assert (it.root / "a").exists()
        await it.do(Undo())
        assert not (it.root / "a").exists() and not it.session.visible()
        await it.do(Redo())
        assert (it.root / "a").exists()


def forget_the_end(base: Path) -> None:
    """The session file as a crash at the end of a turn leaves it: no checkpoint after it, no end."""
    path = base / "session.json"
    lines = path.read_bytes().split(b"\n")
    kept = [line for line in lines if b'"when":"after"' not in line and b'"type":"turn_end"' not in line]
    text = b"\n".join(kept).rstrip(b"]\n, ")
    path.write_bytes(text + b"\n]\n")
    assert not any(isinstance(r, TurnEnded) for r in read_session(path).records)


def forget_the_result(base: Path) -> None:
    """The same when it came in the last call that acts: no result of it, and nothing behind."""
    path = base / "session.json"
    lines = path.read_bytes().split(b"\n")
    last = max(at for at, line in enumerate(lines) if b'"type":"call_started"' in line)
    path.write_bytes(b"\n".join(lines[: last + 1]).rstrip(b", ") + b"\n]\n")


async def test_without_an_open_call_the_last_result_tells_what_the_torn_turn_has_changed(tmp_path: Path) -> None:
    async with engine(tmp_path, say(call("shell", command="printf x > shells")), say("ok"), mode="yolo") as it:
        await it.prompt("go")
    forget_the_end(tmp_path)
    await asyncio.sleep(0.02)
    (tmp_path / "work" / "mine").write_text("by the user, after the crash", encoding="utf-8")
    async with engine(tmp_path, mode="yolo") as it:
        await it.do(Undo())
        report = it.of(Restored)[0].report
        assert [change.path for change in report.restored] == ["shells"]
        assert [conflict.path for conflict in report.conflicts] == ["mine"]


async def test_a_turn_torn_by_a_crash_is_undone_as_far_as_it_is_known_whose_work_it_is(tmp_path: Path) -> None:
    write = call("write_file", path="ours", content="by the agent")
    early = call("shell", command="printf x > early; printf x > both; sleep 0.1")
    open_ = call("shell", command="sleep 0.1; printf y > shells; printf y > both")
    async with engine(tmp_path, say(write), say(early), say(open_), say("ok"), mode="yolo") as it:
        await it.prompt("go")
    forget_the_end(tmp_path)
    forget_the_result(tmp_path)
    (tmp_path / "work" / "mine").write_text("by the user, after the crash", encoding="utf-8")
    async with engine(tmp_path, mode="yolo") as it:
        await it.do(Undo())
        report = it.of(Restored)[0].report
        assert sorted(change.path for change in report.restored) == ["early", "ours"]
        assert sorted(conflict.path for conflict in report.conflicts) == ["both", "mine", "shells"]
        assert sorted(path.name for path in it.root.iterdir()) == ["both", "mine", "shells"]
        await it.do(Redo())
        assert it.of(Restored)[1].report.conflicts == () and (it.root / "early").exists()
        assert any(isinstance(r, CheckpointTaken) and r.late for r in it.session.records)


async def test_looking_at_the_diff_during_a_turn_does_not_disturb_its_checkpoints(tmp_path: Path) -> None:
    calls = [call("shell", command=f"printf {n} > f{n}") for n in range(6)]
    async with engine(tmp_path, say(*calls), say("done"), mode="yolo") as it:
        submission = await it.submit(UserInput("go"))
        while submission not in it.terminals():
            await it.agent.diff()
            await asyncio.sleep(0)
        assert not it.of(Notice)
        await it.do(Undo())
        assert list(it.root.iterdir()) == []


async def test_what_lies_outside_is_written_and_said_to_be_beyond_undo(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    script = [say(call("write_file", path=str(outside), content="x"), call("write_file", path="in", content="y"))]
    async with engine(tmp_path, *script, say("ok"), mode="yolo") as it:
        await it.prompt("go")
        assert any("outside the workspace" in notice.text for notice in it.of(Notice))
        await it.do(Undo())
        assert outside.exists() and not (it.root / "in").exists()


async def test_a_file_in_a_nested_repository_goes_back_too(tmp_path: Path) -> None:
    import subprocess

    nested = tmp_path / "work" / "n"
    nested.mkdir(parents=True)
    identity = ["-c", "user.name=u", "-c", "user.email=e@x"]
    for command in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *command], cwd=nested, check=True)
    script = [
        say(call("write_file", path="n/new", content="x")),
        say("1"),
        say(call("write_file", path="b", content="y")),
    ]
    async with engine(tmp_path, *script, say("2"), mode="yolo") as it:
        await it.prompt("one")
        await it.prompt("two")
        assert not it.of(Notice)
        await it.do(Undo())
        assert not (it.root / "b").exists() and (nested / "new").exists()
        await it.do(Undo())
        assert not (nested / "new").exists()


async def test_a_stop_while_the_end_is_saved_changes_nothing_of_the_outcome(tmp_path: Path) -> None:
    script = [say(call("shell", command="printf x > f")), say("the answer")]
    async with engine(tmp_path, *script, mode="yolo") as it:
        submission = await it.submit(UserInput("go"))
        await it.until(lambda e: isinstance(e, AnswerCompleted) and e.text == "the answer")
        for _ in range(30):
            await it.submit(Interrupt())
            await asyncio.sleep(0)
        end = await it.until_ended(submission)
        assert isinstance(end, TurnCompleted) and end.text == "the answer"
        await it.do(Undo())
        assert not (it.root / "f").exists()


async def test_what_was_remembered_is_forgotten_with_its_turn_and_remembered_again(tmp_path: Path) -> None:
    from agent_cli.workspace.memory import Memory

    script = [say(call("memory", action="append", block="project", text="Tests: make check.")), say("noted")]
    memory = Memory(tmp_path / "config", tmp_path / "project", tmp_path / "notes")
    async with engine(tmp_path, *script, mode="yolo", tools={"memory": memory}) as it:
        await it.prompt("remember how to test")
        assert memory.find("project").text == "Tests: make check."
        await it.do(Undo())
        assert memory.find("project").text == ""
        assert any("project.md" in change.path for change in it.of(Restored)[-1].report.restored)
        await it.do(Redo())
        assert memory.find("project").text == "Tests: make check."
        Path(memory.find("project").path).write_text("Mine now.\n", encoding="utf-8")
        await it.do(Undo())
        assert memory.find("project").text == "Mine now."
        conflicts = it.of(Restored)[-1].report.conflicts
        assert [("modified after" in each.reason, each.decidable) for each in conflicts] == [(True, False)]
        assert isinstance(await it.do(Resolve("old")), OperationFailed)


async def test_commands_run_where_the_conversation_says_after_an_undo_and_a_redo(tmp_path: Path) -> None:
    steps = [say(call("shell", command="cd sub")), say("one"), say(call("shell", command="pwd")), say("two")]
    async with engine(tmp_path, *steps, mode="yolo") as it:
        (it.root / "sub").mkdir()
        await it.prompt("first")
        await it.do(Undo())
        assert it.context.shell.cwd == it.root
        await it.do(Redo())
        assert it.context.shell.cwd == it.root / "sub"
        await it.do(Undo())
        await it.prompt("second")
        assert it.of(ToolCallFinished)[-1].text.startswith(f"{it.root}\n")


async def test_a_job_that_an_undone_turn_has_left_running_is_named(tmp_path: Path) -> None:
    first = say(call("shell", command="sleep 500", background=True))
    second = say(
        call("shell", command="sleep 600", background=True), call("shell", command="true", background=True)
    )
    async with engine(tmp_path, first, say("one"), second, say("two"), mode="yolo") as it:
        await it.prompt("first")
        await it.prompt("second")
        await it.do(Undo())
        (said,) = (each.text for each in it.of(Notice) if "Still running" in each.text)
        assert said.endswith("is undone: sleep 600 (/jobs stop 2).")
