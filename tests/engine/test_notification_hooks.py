"""Hooks that are told that the user is waited for."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from agent_cli.hooks.definition import Hook
from agent_cli.protocol.events import ApprovalRequested, HookRan, QuestionAsked
from agent_cli.protocol.operations import ApprovalAnswer, QuestionAnswer, UserInput
from agent_cli.protocol.records import HookCompleted
from tests.engine.harness import approve_all, engine
from tests.model.scripted import call, say


def telling(tmp_path: Path, body: str = "", matcher: str = "") -> tuple[Hook, Path]:
    """A hook that keeps what it is told in a file, and then does something."""
    file = tmp_path / "told"
    return Hook("Notification", f"cat >> {file}; {body}", matcher, name="bell"), file


async def test_a_hook_is_told_of_a_question_about_a_call_and_answers_nothing(tmp_path: Path) -> None:
    hook, file = telling(tmp_path, "echo no >&2; exit 2")
    async with engine(tmp_path, say(call("shell", command="touch made")), say("done"), hooks=[hook]) as it:
        waiting: list[ApprovalRequested] = []

        def later(request: ApprovalRequested) -> ApprovalAnswer | None:
            waiting.append(request)
            return None

        it.answer = later
        turn = await it.submit(UserInput("go"))
        ran = await it.until_type(HookRan)
        await it.submit(approve_all(waiting[0]))
        await it.until_ended(turn)
        assert (it.root / "made").exists()
        told = json.loads(file.read_text(encoding="utf-8"))
        assert told["notification_type"] == "permission_prompt" and "touch made" in told["message"]
        assert ran.event == "Notification" and not ran.decision
        assert [record.event for record in it.session.records if isinstance(record, HookCompleted)] == [
            "Notification"
        ]


@pytest.mark.parametrize(("matcher", "runs"), [("agent_needs_input", True), ("permission_prompt", False)])
async def test_a_hook_is_told_of_a_question_of_the_model(tmp_path: Path, matcher: str, runs: bool) -> None:
    hook, file = telling(tmp_path, matcher=matcher)
    asks = call("ask_user", question="Which colour?", options=["red", "blue"])
    async with engine(tmp_path, say(asks), say("done"), hooks=[hook]) as it:
        turn = await it.submit(UserInput("go"))
        asked = await it.until_type(QuestionAsked)
        if runs:
            await it.until_type(HookRan)
        await it.submit(QuestionAnswer(asked.request_id, "red"))
        await it.until_ended(turn)
        assert file.exists() is runs
        assert not runs or "Which colour?" in file.read_text(encoding="utf-8")


async def test_a_hook_that_hangs_holds_up_nothing_and_ends_with_the_session(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    hook, _ = telling(tmp_path, f"echo $$ > {pid}.new; mv {pid}.new {pid}; sleep 600")
    async with engine(tmp_path, say("done"), hooks=[hook]) as it:
        await it.prompt("go")
        it.agent.notify_turn_ended("done")
        async with asyncio.timeout(60):
            while not pid.exists():
                await asyncio.sleep(0.01)
    assert not it.of(HookRan)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text(encoding="utf-8")), 0)
