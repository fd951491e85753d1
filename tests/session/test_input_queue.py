"""What waits is on disk: a prompt behind a running turn and guidance for it survive a crash, and are offered, not run,
when the session is opened again."""

import asyncio
from pathlib import Path

from agent_cli.protocol.events import (
    OperationCompleted,
    OperationFailed,
    Steered,
    ToolCallStarted,
    TurnCompleted,
)
from agent_cli.protocol.messages import UserMessage
from agent_cli.protocol.operations import Steer, TakeBack, UserInput
from agent_cli.protocol.records import InputQueued
from agent_cli.session import history
from agent_cli.session.input_queue import _matching
from agent_cli.session.projection import Projection
from agent_cli.store.session_file import read_session
from tests.engine.harness import Engine, engine
from tests.model.scripted import call, say

SLOW = call("shell", command="while [ ! -e go ]; do sleep 0.02; done")


def on_disk(it: Engine) -> list[str]:
    return list(Projection(read_session(it.path).records).waiting.values())


async def until_queued(it: Engine, count: int) -> None:
    async with asyncio.timeout(60):
        while len(on_disk(it) if it.path.exists() else []) < count:
            await asyncio.sleep(0.01)


async def test_a_prompt_behind_a_turn_waits_on_disk_until_its_turn_begins(tmp_path: Path) -> None:
    async with engine(tmp_path, say(SLOW), say("one done"), say("two done"), mode="yolo") as it:
        first = await it.submit(UserInput("one"))
        await it.until(
            lambda e: e.type == "tool_call_started" if hasattr(e, "type") else "Started" in type(e).__name__
        )
        second = await it.submit(UserInput("two"))
        await until_queued(it, 1)
        assert on_disk(it) == ["two"] and it.agent.snapshot().unsent == ()
        (it.root / "go").touch()
        assert isinstance(await it.until_ended(first), TurnCompleted)
        assert isinstance(await it.until_ended(second), TurnCompleted)
        assert on_disk(it) == []


async def test_guidance_waits_on_disk_until_it_is_delivered(tmp_path: Path) -> None:
    script = [say(call("shell", command="while [ ! -e go ]; do sleep 0.02; done")), say("done")]
    async with engine(tmp_path, *script, mode="yolo") as it:
        turn = await it.submit(UserInput("one"))
        await it.until_type(ToolCallStarted)
        await it.submit(Steer("rather this way"))
        await until_queued(it, 1)
        assert on_disk(it) == ["rather this way"]
        (it.root / "go").touch()
        assert isinstance(await it.until_ended(turn), TurnCompleted)
        assert on_disk(it) == []


async def test_what_a_crash_left_waiting_is_offered_until_the_next_prompt(tmp_path: Path) -> None:
    async with engine(tmp_path, say("one done")) as it:
        await it.prompt("one")
        it.session.append(InputQueued(id="q1", text="two"), InputQueued(id="q2", text="three"))
    async with engine(tmp_path, say("four done")) as it:
        assert it.agent.snapshot().unsent == ("two", "three")
        assert len(it.model.requests) == 0, "nothing runs by itself"
        await it.prompt("four")
        assert it.agent.snapshot().unsent == () and on_disk(it) == []


async def test_a_job_is_noted_and_known_after_a_restart(tmp_path: Path) -> None:
    script = [say(call("shell", command="echo begun; sleep 60", background=True)), say("it runs")]
    async with engine(tmp_path, *script, mode="yolo") as it:
        await it.prompt("start it")
        assert [job.state for job in it.agent.snapshot().jobs] == ["running"]
    noted = history.jobs(read_session(tmp_path / "session.json").records)
    assert noted["1"].state == "ended with the session" and "sleep 60" in noted["1"].command


async def test_a_waiting_prompt_can_be_taken_back_and_never_runs(tmp_path: Path) -> None:
    async with engine(tmp_path, say(SLOW), say("one done"), say("three done"), mode="yolo") as it:
        first = await it.submit(UserInput("one"))
        await it.until_type(ToolCallStarted)
        second = await it.submit(UserInput("two"))
        third = await it.submit(UserInput("three"))
        await until_queued(it, 2)
        back = await it.submit(TakeBack("two"))
        assert isinstance(await it.until_ended(back), OperationCompleted)
        assert isinstance(await it.until_ended(second), OperationCompleted)
        assert on_disk(it) == ["three"] and it.agent.snapshot().queued == ("three",)
        (it.root / "go").touch()
        await it.until_ended(first)
        await it.until_ended(third)
        again = await it.submit(TakeBack("two"))
        assert isinstance(await it.until_ended(again), OperationFailed)
    sent = [message.text for message in it.model.requests[-1].messages if isinstance(message, UserMessage)]
    assert [text.partition("\n")[0] for text in sent] == ["one", "three"]


async def test_guidance_that_was_taken_back_is_not_delivered(tmp_path: Path) -> None:
    script = [say(call("shell", command="while [ ! -e go ]; do sleep 0.02; done")), say("done")]
    async with engine(tmp_path, *script, mode="yolo") as it:
        turn = await it.submit(UserInput("one"))
        await it.until_type(ToolCallStarted)
        for text in ("left", "right", "left"):
            await it.submit(Steer(text))
        await until_queued(it, 3)
        assert isinstance(await it.until_ended(await it.submit(TakeBack("left"))), OperationCompleted)
        assert on_disk(it) == ["left", "right"]
        (it.root / "go").touch()
        assert isinstance(await it.until_ended(turn), TurnCompleted)
        assert [event.text for event in it.events if isinstance(event, Steered)] == ["left", "right"]


def test_thousands_of_equal_prompts_are_handed_back_at_once() -> None:
    """Each is compared a few times, however many wait."""
    compared = 0

    class Text(str):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)  # type: ignore[arg-type]

        __hash__ = str.__hash__

    waiting: dict[str, str] = {f"q{number}": Text("x") for number in range(5_000)}
    found = _matching(waiting, tuple(Text("x") for _ in range(5_000)), [])
    assert found == list(waiting) and compared < 50_000
