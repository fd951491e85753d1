"""A stop at any moment: prompt back at once, nothing alive, history valid, next turn works."""

import asyncio
import time
from pathlib import Path

import pytest

from agent_cli.protocol.events import (
    ApprovalRequested,
    ApprovalResolved,
    InputReturned,
    OperationCompleted,
    OperationFailed,
    Restored,
    ToolCallFinished,
    ToolOutput,
    TurnAborted,
    TurnCompleted,
)
from agent_cli.protocol.messages import AssistantMessage
from agent_cli.protocol.operations import (
    Compact,
    Interrupt,
    KeepSummary,
    MarkMessage,
    Redo,
    Rewind,
    Steer,
    TakeBack,
    Undo,
    UserInput,
)
from tests.engine.harness import Engine, approve_all, engine
from tests.model.scripted import Pause, ScriptedModel, call, fail, hang, say


def alive(marker: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if marker in command and "pytest" not in command:
                found.append(command)
    return found


async def stop_after(it: Engine, text: str, ready: object) -> None:
    """Submit, wait until `ready`, interrupt: the turn ends."""
    submission = await it.submit(UserInput(text))
    await ready  # type: ignore[misc]
    await it.submit(Interrupt())
    end = await it.until_ended(submission)
    assert isinstance(end, TurnAborted) and end.stop_reason == "interrupted"


async def test_in_a_silent_stream(tmp_path: Path) -> None:
    async with engine(tmp_path, hang("So far"), say("next")) as it:
        await stop_after(it, "go", it.until(lambda e: getattr(e, "text", "") == "So far"))
        kept = [r for r in it.session.records if isinstance(r, AssistantMessage)]
        assert (kept[0].text, kept[0].finish) == ("So far", "interrupted")
        assert isinstance(await it.prompt("again"), TurnCompleted)
        sent = it.model.requests[1].messages
        assert [m.text for m in sent[:2]] == ["go", "So far\n\n[interrupted]"]


async def test_only_what_did_not_end_normally_can_be_continued(tmp_path: Path) -> None:
    async with engine(tmp_path, say("done"), hang("So far"), say("and the rest"), hang()) as it:
        seen = [it.agent.snapshot().unfinished]
        await it.prompt("one")
        seen.append(it.agent.snapshot().unfinished)
        await stop_after(it, "two", it.until(lambda e: getattr(e, "text", "") == "So far"))
        seen.append(it.agent.snapshot().unfinished)
        await it.do(Undo())
        seen.append(it.agent.snapshot().unfinished)
        await it.do(Redo())
        seen.append(it.agent.snapshot().unfinished)
        assert isinstance(await it.prompt(""), TurnCompleted)
        seen.append(it.agent.snapshot().unfinished)
        assert seen == [False, False, True, False, True, False]


async def test_before_the_first_byte(tmp_path: Path) -> None:
    async with engine(tmp_path, hang(), say("next")) as it:
        await stop_after(it, "go", it.model.hanging.wait())
        assert isinstance(await it.prompt("again"), TurnCompleted)


async def test_in_a_retry_wait(tmp_path: Path) -> None:
    async with engine(tmp_path, fail("rate_limit", retry_after_s=4.0), say("next")) as it:
        await stop_after(it, "go", it.until(lambda e: type(e).__name__ == "RetryScheduled"))
        assert isinstance(await it.prompt("again"), TurnCompleted)


@pytest.mark.parametrize("command", ["sleep 6123", "sleep 6124 & wait", "trap '' TERM; sleep 6125; sleep 6126"])
async def test_in_a_command_its_whole_tree_dies(tmp_path: Path, command: str) -> None:
    async with engine(tmp_path, say(call("shell", command=f"echo up; {command}")), say("next"), mode="yolo") as it:
        it.answer = approve_all
        await stop_after(it, "go", it.until_type(ToolOutput))
        deadline = time.monotonic() + 30
        while alive("sleep 612") and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        assert not alive("sleep 612")
        assert it.of(ToolCallFinished)[0].status == "cancelled"
        assert isinstance(await it.prompt("again"), TurnCompleted)
        it.model.check()


async def test_between_calls_of_one_answer(tmp_path: Path) -> None:
    calls = say(
        call("shell", command="touch a"), call("shell", command="sleep 500"), call("shell", command="touch b")
    )
    async with engine(tmp_path, calls, say("next"), mode="yolo") as it:
        await stop_after(it, "go", it.until_type(ToolCallFinished))
        assert [e.status for e in it.of(ToolCallFinished)] == ["ok", "cancelled", "cancelled"]
        assert not (it.root / "b").exists()
        assert isinstance(await it.prompt("again"), TurnCompleted)


async def test_while_an_approval_is_open(tmp_path: Path) -> None:
    async with engine(tmp_path, say(call("shell", command="touch x")), say("next")) as it:
        await stop_after(it, "go", it.until_type(ApprovalRequested))
        assert isinstance(await it.prompt("again"), TurnCompleted)
        assert not (it.root / "x").exists()


async def test_in_a_compaction(tmp_path: Path) -> None:
    async with engine(tmp_path, say("one " * 50), say("two"), hang(), say("next")) as it:
        await it.prompt("go")
        await it.prompt("and on")
        submission = await it.submit(Compact())
        await asyncio.wait_for(it.model.hanging.wait(), 60)
        await it.submit(Interrupt())
        assert type(await it.until_ended(submission)).__name__ == "OperationFailed"
        assert isinstance(await it.prompt("again"), TurnCompleted)


async def test_with_nothing_running_it_says_so(tmp_path: Path) -> None:
    async with engine(tmp_path) as it:
        assert type(await it.do(Interrupt())).__name__ == "OperationFailed"


async def test_a_stop_hands_back_all_that_waits_and_begins_nothing(tmp_path: Path) -> None:
    """Guidance, prompts and commands alike, even those that the engine has not looked at yet."""
    async with engine(tmp_path, hang(), say("again")) as it:
        (it.root / "kept.txt").write_text("kept", encoding="utf-8")
        first = await it.submit(UserInput("one"))
        await asyncio.wait_for(it.model.hanging.wait(), 60)
        waiting = [
            Steer("left"),
            UserInput("two"),
            Undo(2),
            Steer("right"),
            Compact("the words"),
            UserInput("three"),
        ]
        handed_in = [await it.submit(operation) for operation in waiting]
        shown = [each.text for each in it.agent.snapshot().waiting]
        assert shown == ["left", "two", "/undo 2", "right", "/compact the words", "three"]
        await it.submit(Interrupt())
        assert isinstance(await it.until_ended(first), TurnAborted)
        for submission in handed_in:
            assert isinstance(await it.until_ended(submission), OperationCompleted)
        (returned,) = it.of(InputReturned)
        assert returned.texts == ("left", "two", "right", "three")
        assert returned.commands == ("/undo 2", "/compact the words")
        assert it.agent.snapshot().waiting == () and not it.of(Restored)
        assert isinstance(await it.prompt("again"), TurnCompleted)
        assert [message.text for message in it.session.view.prompts] == ["one", "again"]
        assert len(it.model.requests) == 2 and it.agent.snapshot().unsent == ()


async def test_a_waiting_command_keeps_its_number_and_its_text(tmp_path: Path) -> None:
    async with engine(tmp_path, hang()) as it:
        first = await it.submit(UserInput("one"))
        await asyncio.wait_for(it.model.hanging.wait(), 60)
        for operation in (MarkMessage("m", "dropped", 1), Rewind("t", "code", 3), KeepSummary("Two\n  lines.")):
            await it.submit(operation)
        await it.submit(Interrupt())
        await it.until_ended(first)
        (returned,) = it.of(InputReturned)
        assert returned.commands == ("/context drop 1", "/rewind 3 code", "/compact keep: Two\n  lines.")


async def test_what_waits_is_taken_back_newest_first(tmp_path: Path) -> None:
    async with engine(tmp_path, hang(), say("again")) as it:
        first = await it.submit(UserInput("one"))
        await asyncio.wait_for(it.model.hanging.wait(), 60)
        for operation in (UserInput("two"), Steer("left"), Undo()):
            await it.submit(operation)
        for _ in range(3):
            assert isinstance(await it.do(TakeBack()), OperationCompleted)
        assert [each.texts + each.commands for each in it.of(InputReturned)] == [("/undo",), ("left",), ("two",)]
        assert isinstance(await it.do(TakeBack()), OperationFailed)
        await it.submit(Interrupt())
        await it.until_ended(first)
        assert len(it.model.requests) == 1


async def test_a_prompt_handed_in_at_an_open_question_waits_for_the_end_of_the_turn(tmp_path: Path) -> None:
    async with engine(tmp_path, say(call("shell", command="touch x")), say("made"), say("second")) as it:
        it.answer = None
        first = await it.submit(UserInput("go"))
        request = await it.until_type(ApprovalRequested)
        second = await it.submit(UserInput("then this"))
        await it.until(lambda _: it.agent.snapshot().queued == ("then this",))
        assert not it.of(ApprovalResolved)
        await it.submit(approve_all(request))
        end = await it.until_ended(first)
        assert isinstance(end, TurnCompleted) and end.text == "made" and (it.root / "x").exists()
        end = await it.until_ended(second)
        assert isinstance(end, TurnCompleted) and end.text == "second"


async def test_a_prompt_that_was_stopped_has_no_answer_of_its_own(tmp_path: Path) -> None:
    async with engine(tmp_path, say("to the first"), hang()) as it:
        await it.prompt("the first")
        assert it.agent.snapshot().answered
        second = await it.submit(UserInput("the second"))
        await asyncio.wait_for(it.model.hanging.wait(), 60)
        await it.submit(Interrupt())
        await it.until_ended(second)
        assert (it.agent.snapshot().last_prompt, it.agent.snapshot().answered) == ("the second", False)
    async with engine(tmp_path, say("to the third")) as it:
        assert (it.agent.snapshot().last_answer, it.agent.snapshot().answered) == ("to the first", False)
        await it.prompt("the third")
        assert (it.agent.snapshot().last_answer, it.agent.snapshot().answered) == ("to the third", True)


async def test_a_stop_at_any_await_leaves_a_valid_session(tmp_path: Path) -> None:
    """The turn is stopped after 1, 2, 3 … turns of the event loop until it outruns the stop."""
    for steps in range(0, 120, 3):
        base = tmp_path / str(steps)
        base.mkdir()
        script = [say("a", call("shell", command="echo hi"), call("list_dir", path=".")), say("b")]
        model = ScriptedModel(*script, then=say("next"))
        async with engine(base, model=model, mode="yolo") as it:
            submission = await it.submit(UserInput("go"))
            for _ in range(steps):
                await asyncio.sleep(0)
            await it.submit(Interrupt())
            await it.until_ended(submission)
            assert isinstance(await it.prompt("again"), TurnCompleted)
            assert [m.text for m in it.session.view.prompts] == ["go", "again"]


async def test_the_text_that_was_streaming_is_marked(tmp_path: Path) -> None:
    async with engine(tmp_path, say("slow", Pause(5)), say("x")) as it:
        submission = await it.submit(UserInput("go"))
        await it.until(lambda e: getattr(e, "text", "") == "slow")
        await it.submit(Interrupt())
        await it.until_ended(submission)
        assert it.session.view.last_answer == "slow"


async def test_what_a_stopped_command_had_printed_reaches_the_model(tmp_path: Path) -> None:
    command = "echo important; sleep 30"
    async with engine(tmp_path, say(call("shell", command=command)), say("next"), mode="yolo") as it:
        await stop_after(it, "go", it.until_type(ToolOutput))
        result = it.of(ToolCallFinished)[0]
        assert (result.status, result.command) == ("cancelled", command) and "important" in result.text
        await it.prompt("and?")
        assert "important" in it.model.requests[1].messages[2].text


async def test_the_end_of_a_stopped_turn_carries_its_text_and_its_reason(tmp_path: Path) -> None:
    async with engine(tmp_path, hang("half an answer")) as it:
        submission = await it.submit(UserInput("go"))
        await it.until(lambda e: getattr(e, "text", "") == "half an answer")
        await it.submit(Interrupt("time_limit"))
        end = await it.until_ended(submission)
        assert isinstance(end, TurnAborted)
        assert (end.stop_reason, end.text) == ("time_limit", "half an answer")


async def test_what_is_handed_in_behind_a_stop_is_not_stopped(tmp_path: Path) -> None:
    """A program writes without waiting in between; a person cannot."""
    async with engine(tmp_path, hang(), say("second"), say("third"), say("fourth")) as it:
        first = await it.submit(UserInput("one"))
        await asyncio.wait_for(it.model.hanging.wait(), 60)
        await it.submit(UserInput("waits"))
        await it.submit(Interrupt())
        second = await it.submit(UserInput("two"))
        assert isinstance(await it.until_ended(first), TurnAborted)
        assert isinstance(await it.until_ended(second), TurnCompleted)
        assert [each.texts for each in it.of(InputReturned)] == [("waits",)]
        stop = await it.submit(Interrupt())  # nothing runs
        third = await it.submit(UserInput("three"))
        assert isinstance(await it.until_ended(stop), OperationFailed)
        assert isinstance(await it.until_ended(third), TurnCompleted)
        back = await it.submit(TakeBack())
        fourth = await it.submit(UserInput("four"))
        assert isinstance(await it.until_ended(back), OperationFailed)
        await it.until_ended(fourth)
        assert [each.texts for each in it.of(InputReturned)] == [("waits",)]
