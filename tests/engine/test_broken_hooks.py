"""Hooks that are broken, or hang, where they decide: the thing does not happen, the user reads why and how to go on,
and a stop ends it at once with all that the hook has started."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent_cli.hooks.definition import DECIDING, Event, Hook
from agent_cli.protocol.events import ApprovalRequested, Compacted, Notice, OperationFailed, TurnAborted
from agent_cli.protocol.messages import ToolResult
from agent_cli.protocol.operations import Compact, Interrupt, Operation, UserInput
from tests.engine.harness import Engine, approve_all, engine
from tests.model.scripted import call, say
from tests.rows import each_row

BROKEN = {
    "missing script": ("sh no/such/script.sh; exit 127", "could not start"),
    "exit 126": ("exit 126", "could not start"),
    "exit 127": ("exit 127", "could not start"),
    "killed": ("kill -9 $$", "was killed"),
    "time-out": ("sleep 600", "took longer than"),
    "half a JSON": ("echo '{\"decision\": '", "JSON that cannot be read"),
    "1 MB of output": ("head -c 1100000 /dev/zero | tr '\\0' x", "more than 1 MB"),
}
SCRIPT = (say(call("shell", command="touch made")), say("one " * 200), say("two"), say("SUMMARY"))


async def call_is_made(it: Engine) -> bool:
    await it.prompt("go")
    return (it.root / "made").exists() or bool(it.of(ApprovalRequested))


async def prompt_is_sent(it: Engine) -> bool:
    await it.prompt("go")
    return bool(it.model.requests)


async def conversation_is_reduced(it: Engine) -> bool:
    await it.prompt("go")
    before = it.session.visible()
    await it.do(Compact())
    return bool(it.of(Compacted)) or it.session.visible() != before


HAPPENS: dict[Event, Callable[[Engine], Awaitable[bool]]] = {
    "PreToolUse": call_is_made,
    "PermissionRequest": call_is_made,
    "UserPromptSubmit": prompt_is_sent,
    "PreCompact": conversation_is_reduced,
}


def test_every_event_that_decides_is_in_the_matrix() -> None:
    assert set(HAPPENS) == DECIDING


@each_row("broken", BROKEN)
@each_row("event", HAPPENS)
async def test_a_broken_guard_does_not_open_the_gate(tmp_path: Path, event: Event, broken: str) -> None:
    line, cause = BROKEN[broken]
    hook = Hook(event, line, name="my guard", source="settings.json", dialect="claude", timeout_s=2)
    async with engine(tmp_path, *SCRIPT, hooks=[hook]) as it:
        if event != "PermissionRequest":
            it.answer = approve_all
        assert not await HAPPENS[event](it)
        said = [notice.text for notice in it.of(Notice) if "my guard" in notice.text]
        assert len(said) == 1 and cause in said[0] and "settings.json" in said[0]
        assert "/hooks off my guard" in said[0] and "--no-hooks" in said[0]
        refused = [record.text for record in it.session.records if isinstance(record, ToolResult)]
        assert all(("user hook failed" in text) is ("Tool" in event or "Perm" in event) for text in refused)


@pytest.mark.parametrize("event", HAPPENS)
async def test_where_nobody_can_be_asked_to_ask_is_to_refuse(tmp_path: Path, event: Event) -> None:
    hook = Hook(event, "exit 127", name="my guard", on_error="ask")
    async with engine(tmp_path, *SCRIPT, hooks=[hook], interactive=False, mode="ask") as it:
        assert not await HAPPENS[event](it)


async def test_a_refused_compaction_is_none_when_its_summary_is_only_shown(tmp_path: Path) -> None:
    async with engine(tmp_path, *SCRIPT, hooks=[Hook("PreCompact", "exit 2")], mode="yolo") as it:
        await it.prompt("go")
        await it.prompt("and on")
        asked = len(it.model.requests)
        end = await it.do(Compact(preview=True))
        assert len(it.model.requests) == asked and not it.of(Compacted)
        assert isinstance(end, OperationFailed) and "was not compacted" in end.error.message


async def test_where_a_hook_refuses_a_compaction_results_are_not_shortened_either(tmp_path: Path) -> None:
    large = call("shell", command="seq 1 3000")
    script = (say(large), say(call("shell", command="true")), say("two"), say("three"))
    async with engine(tmp_path, *script, hooks=[Hook("PreCompact", "exit 2")], mode="yolo") as it:
        await it.prompt("go")
        before = it.session.visible()
        end = await it.do(Compact())
        assert it.session.visible() == before
        assert isinstance(end, OperationFailed) and "nothing to compact" not in end.error.message


async def test_the_way_out_of_a_hook_that_refuses_every_prompt_is_said(tmp_path: Path) -> None:
    hook = Hook("UserPromptSubmit", f"{sys.executable} no-such-file.py", name="my guard")  # exits with 2 by itself
    async with engine(tmp_path, say("done"), hooks=[hook]) as it:
        await it.prompt("go")
        (said,) = [notice.text for notice in it.of(Notice)]
        assert "/hooks off my guard" in said and "no-such-file.py" in said and not it.model.requests


@each_row("event", [*HAPPENS, "PostToolUse", "Stop", "SessionStart"])
async def test_a_stop_ends_a_turn_in_which_a_hook_hangs_and_all_it_has_started(
    tmp_path: Path, event: Event
) -> None:
    pid = tmp_path / "pid"
    line = f"(trap '' TERM; sh -c 'echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600') & wait"
    async with engine(
        tmp_path, *SCRIPT, hooks=[Hook(event, line)], mode="ask" if "Perm" in event else "yolo"
    ) as it:
        operation: Operation = UserInput("go")
        if event == "PreCompact":
            await it.prompt("go")
            operation = Compact()
        submission = await it.submit(operation)
        async with asyncio.timeout(60):
            while not pid.exists():
                await asyncio.sleep(0.01)
        await it.submit(Interrupt())
        ended = await it.until_ended(submission)
        assert isinstance(ended, TurnAborted) or event == "PreCompact"
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text(encoding="utf-8")), 0)
        assert event == "PostToolUse" or not (it.root / "made").exists() or event in ("Stop", "PreCompact")
