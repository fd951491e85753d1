"""Prompts for other programs: what their users are asked, and what they are told meanwhile."""

import asyncio

from agent_cli.protocol import events as ev
from agent_cli.protocol.operations import ApprovalAnswer, Decision, Operation, QuestionAnswer, UserInput
from agent_cli.serve.engine_link import ALLOW, EngineLink, Question
from tests.ui.fake_client import FakeClient
from tests.ui.tool_events import approval_item


class FailedEngine(FakeClient):
    """An engine that has ended: it ignores what is submitted."""

    async def submit(self, operation: Operation) -> str:
        return "ignored"


WHO = {"agent_name": "explore-2", "agent_task": "find the \x1b[2Jtest"}


async def asks(client: FakeClient, submission: str, text: str) -> None:
    item = approval_item("c1", "shell", "npm test", "npm test", "command", "runs", "mode ask", "", "{}", "")
    client.emit(
        ev.AgentChanged(agent_id="i", agent_type="explore", agent_name="explore-2", state="running", task="t"),
        submission,
    )
    client.emit(ev.ApprovalRequested(request_id="r", items=(item,), **WHO), submission)  # type: ignore[arg-type]
    await client.answers.get()
    client.emit(ev.QuestionAsked(request_id="q", question="Which?", **WHO), submission)  # type: ignore[arg-type]
    await client.answers.get()


async def test_questions_of_sub_agents_name_them_and_their_answers_go_back() -> None:
    client, asked, told = FakeClient(asks), list[str](), list[str]()

    async def ask(question: Question) -> str:
        asked.append(question.message)
        return ALLOW

    async def progress(text: str) -> None:
        told.append(text)

    link = EngineLink(client)
    async with link.turn:
        await link.run(UserInput("go"), ask, progress)
    await link.aclose()
    who = "The sub-agent explore-2 (its task: find the ^[[2Jtest) asks:\n"
    assert asked[0].startswith(f"{who}npm test\nAsked because: ") and asked[1] == f"{who}Which?"
    assert told == ["explore-2 running"]
    assert client.operations(ApprovalAnswer) == [ApprovalAnswer("r", (Decision("c1", True),))]
    assert client.operations(QuestionAnswer) == [QuestionAnswer("q", ALLOW)]


async def test_every_prompt_after_the_end_of_the_engine_says_so() -> None:
    client = FailedEngine()
    client.emit(ev.SessionClosed(session_id="abc123", error=ev.ErrorInfo("internal_error", "The disk is full.")))
    link = EngineLink(client)

    async def nobody(said: object) -> None:
        raise AssertionError(said)

    async with asyncio.timeout(5):
        ended = [await link.run(UserInput("go"), nobody, nobody) for _ in range(2)]
    await link.aclose()
    assert [each.error for each in ended] == ["The disk is full."] * 2
