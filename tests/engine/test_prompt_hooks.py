"""Hooks on prompts that are typed while a turn runs."""

import asyncio
from pathlib import Path

from agent_cli.hooks.definition import Hook
from agent_cli.protocol.events import Attached, Notice, Steered, ToolCallStarted, TurnCompleted
from agent_cli.protocol.messages import ToolResult
from agent_cli.protocol.operations import Steer, UserInput
from tests.engine.harness import engine, refuse_all
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


async def test_what_hooks_say_at_the_beginning_outlasts_a_first_prompt_that_is_refused(tmp_path: Path) -> None:
    start = Hook("SessionStart", "echo 'the build is broken'", name="start")
    async with engine(tmp_path, say("one"), say("two"), hooks=[start, GUARD]) as it:
        await it.prompt("the private plan")
        assert not it.model.requests
        await it.prompt("go")
        assert str(it.model.requests[-1]).count("the build is broken") == 1
        await it.prompt("go on")
        assert str(it.model.requests[-1].messages[-1]).count("the build is broken") == 0


async def test_a_turn_ends_where_all_that_would_have_it_go_on_is_refused(tmp_path: Path) -> None:
    opened = asyncio.Event()
    async with engine(tmp_path, say("done", Gate(opened)), hooks=[GUARD]) as it:
        turn = await it.submit(UserInput("go"))
        await asyncio.wait_for(it.model.hanging.wait(), 60)
        await it.do(Steer("the private plan"))
        opened.set()
        assert isinstance(await it.until_ended(turn), TurnCompleted)
        assert len(it.model.requests) == 1 and not it.of(Steered)


async def test_words_that_come_with_a_refusal_pass_the_hooks_on_prompts(tmp_path: Path) -> None:
    words = iter(["the private plan", "be brief"])
    calls = (say(call("shell", command="touch one")), say(call("shell", command="touch two")), say("done"))
    async with engine(tmp_path, *calls, hooks=[GUARD]) as it:
        it.answer = lambda request: refuse_all(next(words))(request)
        await it.prompt("go")
        first, second = (record for record in it.session.records if isinstance(record, ToolResult))
        assert "private" not in f"{first}" and "refused this call" in first.text
        assert "They said: be brief" in second.text and "mind the style" in second.text
        assert any("not that" in event.text for event in it.of(Notice))


async def test_the_reason_of_a_hook_that_stops_everything_is_said_of_a_mention(tmp_path: Path) -> None:
    stop = """echo '{"continue": false, "stopReason": "not these"}'"""
    async with engine(tmp_path, say("done"), hooks=[Hook("PreToolUse", stop, "read_file", name="no")]) as it:
        (it.root / "plan.txt").write_text("blue heron")
        await it.prompt("look at @plan.txt")
        (shown,) = it.of(Attached)
        assert "a hook refused it: not these" in shown.note
        assert "blue heron" not in str(it.model.requests[-1])


async def test_a_command_that_a_rule_runs_after_an_edit_passes_the_hooks(tmp_path: Path) -> None:
    hook = Hook("PreToolUse", "exit 2", "shell", name="no")
    rule = {"after_edit_run": "touch made", "paths": "*.py"}
    edit = call("write_file", path="a.py", content="x\n")
    async with engine(tmp_path, say(edit), say("done"), hooks=[hook], tool_rules=[rule], mode="yolo") as it:
        await it.prompt("go")
        assert [path.name for path in it.root.iterdir()] == ["a.py"]
        (result,) = (record for record in it.session.records if isinstance(record, ToolResult))
        assert "Refused by a user hook" in result.text
