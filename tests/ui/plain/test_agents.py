"""Sub-agents in the plain REPL: questions come one after another, whoever asks."""

import asyncio
import io
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from agent_cli.config.schema import Ui
from agent_cli.protocol import events as ev
from agent_cli.protocol.client import AgentLine
from agent_cli.protocol.operations import ApprovalAnswer, Decision, QuestionAnswer
from agent_cli.ui.plain.repl import run_plain
from tests.ui.fake_client import FakeClient, FakeHost
from tests.ui.tool_events import approval_item


def asks(agent: str) -> ev.ApprovalRequested:
    item = approval_item("c1", "shell", "npm test", "npm test", "command", "runs", "mode ask", "", "{}", "")
    return ev.ApprovalRequested(
        request_id=f"r-{agent}", items=(item,), agent_name=agent, agent_task=f"for {agent}"
    )


def wonders(agent: str) -> ev.QuestionAsked:
    return ev.QuestionAsked(
        request_id=f"q-{agent}", question="Which?", options=("left", "right"), agent_name=agent, agent_task="x"
    )


async def at_once(client: FakeClient, submission: str, text: str) -> None:
    for event in (asks("a-1"), wonders("a-2"), asks("a-3")):
        client.emit(event, submission)
    for _ in range(3):
        await client.answers.get()


async def in_background(client: FakeClient, submission: str, text: str) -> None:
    line = AgentLine("i", "a-1", "explore", "waiting", "for a-1", True, 1, None, 1.0, "", "")
    client.state = msgspec.structs.replace(client.state, agents=(line,))
    for event in (asks(""), asks("a-1")):
        client.emit(event, submission)


async def ends(client: FakeClient, submission: str, text: str) -> None:
    for event in (asks("a-1"), asks("a-2")):
        client.emit(event, submission)
    ended = {"agent_id": "i", "agent_name": "a-1", "agent_type": "a", "task": "for a-1"}
    client.emit(ev.AgentChanged(state="stopped", **ended), submission)  # type: ignore[arg-type]
    await client.answers.get()


async def run(script: Callable[..., Any], typed: str) -> tuple[FakeClient, str]:
    client, out = FakeClient(script), io.StringIO()
    await asyncio.wait_for(run_plain(client, FakeHost(), Ui(), io.StringIO(typed), out), 60)
    return client, out.getvalue()


async def test_questions_of_several_come_one_after_another() -> None:
    client, out = await run(at_once, "go\nuse make\n2\ny\n")
    assert client.operations(ApprovalAnswer) == [
        ApprovalAnswer("r-a-1", (Decision("c1", False, "use make"),)),
        ApprovalAnswer("r-a-3", (Decision("c1", True),)),
    ]
    assert client.operations(QuestionAnswer) == [QuestionAnswer("q-a-2", "right")]
    first, second, third = (
        out.index(part)
        for part in (
            "a-1 wants to run  npm test ?\nIts task: for a-1\n",
            "To a-2: Number or answer: ",
            "a-3 wants to run  npm test ?\nIts task: for a-3\n",
        )
    )
    assert first < second < third and out.count("wants to run") == 2


async def test_a_question_in_the_background_stays_when_the_turn_is_over() -> None:
    client, _ = await run(in_background, "go\ny\n")
    assert client.operations(ApprovalAnswer) == [ApprovalAnswer("r-a-1", (Decision("c1", True),))]


@pytest.mark.parametrize("typed", ["go\n", "go\ny\n"])
async def test_the_questions_of_a_sub_agent_end_with_it(typed: str) -> None:
    client, _ = await run(ends, typed)
    decisions = (Decision("c1", True),) if "y" in typed else ()
    assert client.operations(ApprovalAnswer) == [ApprovalAnswer("r-a-2", decisions)]


async def test_when_the_input_is_over_every_question_is_refused() -> None:
    client, _ = await run(at_once, "go\n")
    answers = client.operations(ApprovalAnswer)
    assert answers == [ApprovalAnswer("r-a-1"), ApprovalAnswer("r-a-3")]
    assert len(client.operations(QuestionAnswer)) == 1
