"""Hooks that are functions of the program."""

import asyncio
from typing import Any

import pytest

from agent_cli import AgentError, Allow, Deny, Hook, HookEvent
from agent_cli.events import HookRan, Notice, ToolCallFinished
from tests.model.server import Call, Reply
from tests.sdk.conftest import Machine


def write(name: str) -> Reply:
    return Reply(calls=(Call("write_file", {"path": name, "content": "x\n"}),))


async def events(machine: Machine, *replies: Reply, **options: Any) -> list[Any]:
    machine.script(*replies, Reply(text="done"))
    async with machine.agent(**{"mode": "auto-edit", "settings": "none", **options}) as agent:
        return [event async for event in agent.stream("go")]


def statuses(seen: list[Any]) -> list[str]:
    return [each.status for each in seen if isinstance(each, ToolCallFinished)]


async def no_lockfiles(event: HookEvent) -> Deny | None:
    if event.path and event.path.name.endswith(".lock"):
        return Deny("Lock files are made by the package manager.")
    return None


async def test_a_function_refuses_a_call_and_lets_others_pass(machine: Machine) -> None:
    hook = Hook("PreToolUse", no_lockfiles, matcher="Edit|Write", timeout_s=2)
    seen = await events(machine, write("a.lock"), write("a.txt"), hooks=[hook])
    assert statuses(seen) == ["denied", "ok"]
    assert "made by the package manager" in str(machine.server.requests[1].body["messages"])
    assert not (machine.work / "a.lock").exists() and (machine.work / "a.txt").exists()


async def test_a_function_may_allow_what_would_be_asked(machine: Machine) -> None:
    hook = Hook("PreToolUse", lambda event: Allow())
    assert statuses(await events(machine, write("a.txt"), hooks=[hook], mode="ask")) == ["ok"]


async def raises(event: HookEvent) -> None:
    raise RuntimeError("it broke")


async def hangs(event: HookEvent) -> None:
    await asyncio.Event().wait()


async def is_cancelled_by_itself(event: HookEvent) -> None:
    raise asyncio.CancelledError


def refuses_with_a_number(event: HookEvent) -> Deny:
    return Deny(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("callback", "why"),
    [
        (raises, "it broke"),
        (hangs, "longer than 0.1 s"),
        (is_cancelled_by_itself, "CancelledError"),
        (refuses_with_a_number, "Expected `str`, got `int`"),
    ],
)
async def test_a_function_that_fails_refuses_and_that_is_said(machine: Machine, callback: Any, why: str) -> None:
    async with asyncio.timeout(60):
        seen = await events(machine, write("a.txt"), hooks=[Hook("PreToolUse", callback, timeout_s=0.1)])
    assert statuses(seen) == ["denied"]
    assert any(why in each.text for each in seen if isinstance(each, Notice))
    assert [each.hook for each in seen if isinstance(each, HookRan)] == [callback.__name__]


async def test_a_prompt_is_seen(machine: Machine) -> None:
    prompts: list[str] = []
    await events(machine, hooks=[Hook("UserPromptSubmit", lambda event: prompts.append(event.prompt))])
    assert prompts == ["go"]


async def test_an_event_that_is_none_is_misuse(machine: Machine) -> None:
    with pytest.raises(AgentError, match=r"Nothing'$"):
        await machine.agent(hooks=[Hook("Nothing", raises)]).__aenter__()
    with pytest.raises(AgentError, match="'PreTool'; did you mean PreToolUse"):
        await machine.agent(hooks=[Hook("PreTool", raises)]).__aenter__()
