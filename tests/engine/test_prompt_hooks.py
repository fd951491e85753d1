"""Hooks on prompts that are typed while a turn runs."""

import asyncio
from pathlib import Path

from agent_cli.hooks.definition import Hook
from agent_cli.protocol.events import Notice, Steered, ToolCallStarted, TurnCompleted
from agent_cli.protocol.operations import Steer, UserInput
from tests.engine.harness import engine
from tests.model.scripted import Gate, call, say

GUARD = Hook(
    "UserPromptSubmit",
    "if grep -q private; then echo 'not that' >&2; exit 2; fi; echo 'mind the style'",
    name="guard",
)
WAIT = call("shell", command="until test -e go; do sleep 0.01; done")


async def test_guidance_that_a_hook_refuses_does_not_reach_the_model(tmp_path: Path) -> None:
    async with engine(tmp_path, say(WAIT), say("done"), hooks=[GUARD], mode="yolo") as it:
        turn = await it.submit(UserInput("go"))
        await it.until_type(ToolCallStarted)
        await it.submit(Steer("the private plan"))
        await it.submit(Steer("be brief"))
        (it.root / "go").touch()
        ended = await it.until_ended(turn)
        assert isinstance(ended, TurnCompleted) and ended.text == "done"
        assert [event.text for event in it.of(Steered)] == ["be brief"]
        sent = str(it.model.requests[-1])
        assert "private" not in sent and "be brief" in sent and sent.count("mind the style") == 2
        assert any("not that" in event.text for event in it.of(Notice))
        assert not it.session.view.waiting


async def test_a_turn_ends_where_all_that_would_have_it_go_on_is_refused(tmp_path: Path) -> None:
    opened = asyncio.Event()
    async with engine(tmp_path, say("done", Gate(opened)), hooks=[GUARD]) as it:
        turn = await it.submit(UserInput("go"))
        await asyncio.wait_for(it.model.hanging.wait(), 60)
        await it.do(Steer("the private plan"))
        opened.set()
        assert isinstance(await it.until_ended(turn), TurnCompleted)
        assert len(it.model.requests) == 1 and not it.of(Steered)
