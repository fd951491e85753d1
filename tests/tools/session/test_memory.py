"""The memory tool: each action, what it refuses, and what it tells its two readers."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_cli.protocol.actions import WriteMemory
from agent_cli.protocol.messages import MemoryChange
from agent_cli.tools.kit.base import ToolContext, ToolError
from agent_cli.tools.session.memory import MemoryParams, MemoryTool
from agent_cli.workspace.memory import Memory, put_back
from tests.tools.calls import REGISTRY, call


@pytest.fixture
def memory(context: ToolContext) -> Memory:
    assert context.memory is not None
    context.memory.given()
    return context.memory


async def changed(context: ToolContext, **arguments: Any) -> MemoryChange:
    outcome = await call(context, "memory", **arguments)
    return outcome.memory[0]


async def refused(context: ToolContext, **arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        await call(context, "memory", **arguments)
    return str(caught.value)


async def test_each_action_changes_the_block_as_it_says(context: ToolContext, memory: Memory) -> None:
    await changed(context, action="append", block="project", text="tests run with make test\n")
    await changed(context, action="append", block="project", text="python 3.11")
    assert memory.find("project").text == "tests run with make test\npython 3.11"
    await changed(context, action="insert", block="project", text="first", line=0)
    await changed(context, action="insert", block="project", text="last", line=3)
    await changed(context, action="replace", block="project", old="3.11", text="3.12")
    assert memory.find("project").text == "first\ntests run with make test\npython 3.12\nlast"
    await changed(context, action="rewrite", block="project", text="all new")
    assert memory.find("project").text == "all new"
    await changed(context, action="rewrite", block="project", text="")
    assert memory.find("project").text == ""


async def test_a_change_is_shown_and_can_be_taken_back(context: ToolContext, memory: Memory) -> None:
    first = await changed(context, action="append", block="notes", text="one")
    outcome = await call(context, "memory", action="append", block="notes", text="two")
    assert outcome.text == "notes is changed; 7 of 4000 characters used."
    assert outcome.display == "--- a/memory/notes\n+++ b/memory/notes\n@@ -1 +1,2 @@\n one\n+two\n"
    (second,) = outcome.memory
    assert first.before is None and second.before == first.after
    for change in (second, first):
        assert put_back(change.path, change.after, change.before)
    assert memory.find("notes").hash == "" and not Path(first.path).exists()


async def test_a_replacement_must_be_found_exactly_once(context: ToolContext, memory: Memory) -> None:
    await changed(context, action="append", block="notes", text="tea tea")
    twice = await refused(context, action="replace", block="notes", old="tea", text="x")
    assert "it occurs 2 times. It now reads:\ntea tea" in twice
    assert "it occurs nowhere" in await refused(context, action="replace", block="notes", old="coffee", text="x")
    assert "it occurs nowhere" in await refused(context, action="replace", block="notes", text="x")
    assert "there is no line 9" in await refused(context, action="insert", block="notes", text="x", line=9)
    assert "there is no line -1" in await refused(context, action="insert", block="notes", text="x", line=-1)
    assert "change nothing" in await refused(context, action="rewrite", block="notes", text="tea tea")
    assert "no memory block 'note'" in await refused(context, action="append", block="note", text="x")
    assert memory.find("notes").text == "tea tea"


async def test_a_rewrite_waits_until_the_users_change_was_seen(context: ToolContext, memory: Memory) -> None:
    await changed(context, action="append", block="notes", text="mine")
    path = Path(memory.find("notes").path)
    path.write_text("the user's\n", encoding="utf-8")
    for _ in range(2):
        await changed(context, action="append", block="notes", text="mine")  # goes with whatever is there
        path.write_text("the user's\n", encoding="utf-8")
        text = await refused(context, action="rewrite", block="notes", text="all new")
        assert "was changed since you were given it" in text and "It now reads:\nthe user's" in text
    await changed(context, action="rewrite", block="notes", text="both")
    assert memory.find("notes").text == "both"


async def test_limits_and_secrets_are_refused(context: ToolContext, memory: Memory) -> None:
    long = await refused(context, action="append", block="notes", text="x" * 4001)
    assert "4001 characters, 1 more than its limit of 4000" in long and "shorten it first" in long
    secret = await refused(context, action="append", block="user", text="key ghp_" + "a1B2c3D4e5" * 4)
    assert "holds a secret" in secret
    assert [block.hash for block in memory.blocks()] == ["", "", ""]


async def test_odd_characters_are_kept_as_a_file_can_hold_them(context: ToolContext, memory: Memory) -> None:
    params = MemoryParams("append", "notes", "a\ud800\r\nb")
    await MemoryTool().run(params, context)
    assert memory.find("notes").text == "a?\nb"


async def test_what_is_asked_is_the_change_of_this_block_and_the_preview_is_the_diff(
    context: ToolContext, memory: Memory
) -> None:
    tool, params = REGISTRY.parse("memory", '{"action":"append","block":"user","text":"likes tea"}')
    assert tool.actions(params, context) == (WriteMemory("user", "user"),)
    preview = await tool.preview(params, context)
    assert preview.kind == "diff" and preview.text.endswith("@@ -0,0 +1 @@\n+likes tea\n")
    assert memory.find("user").hash == ""
    assert (await tool.run(params, context)).display == preview.text


async def test_a_session_without_memory_says_so(context: ToolContext) -> None:
    alone = msgspec.structs.replace(context, memory=None)
    assert "no memory" in await refused(alone, action="append", block="user", text="x")
