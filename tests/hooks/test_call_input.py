"""Hooks about calls get the fields that their agent documents."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.hooks.call_names import ToolCallFacts
from agent_cli.hooks.definition import Dialect, Event, Hook
from tests.hooks.test_engine import running

EDIT = {"path": "a.py", "edits": [{"old": "1", "new": "2"}]}
SHELL = {"stdout": "made\n", "stderr": "", "interrupted": False, "exit_code": 0}


async def given(
    folder: Path, dialect: Dialect, event: Event, call: ToolCallFacts, response: Any = "", written: str = ""
) -> dict[str, Any]:
    """Return what a hook, a real program, reads of a call."""
    hook = Hook(event, f"cat > {folder}/given", dialect=dialect, written_event=written)
    async with running(folder, hook) as engine:
        if event == "PreToolUse":
            await engine.before_call(call)
        else:
            await engine.after_call(call, response, ok=event == "PostToolUse", duration_s=0.25)
    read: dict[str, Any] = json.loads((folder / "given").read_bytes())
    return read


def call(folder: Path, tool: str, arguments: dict[str, Any], **more: Any) -> ToolCallFacts:
    return ToolCallFacts("c1", tool, arguments, str(folder), **more)


@pytest.mark.parametrize(
    ("tool", "arguments", "response"),
    [
        ("edit_file", EDIT, {"oldString": "1", "newString": "2", "replaceAll": False, "success": True}),
        ("write_file", {"path": "a.py", "content": "x"}, {"content": "x", "success": True}),
    ],
)
async def test_claude_codes_hooks_find_the_path_of_a_changed_file_in_the_response(
    tmp_path: Path, tool: str, arguments: dict[str, Any], response: dict[str, Any]
) -> None:
    read = await given(tmp_path, "claude", "PostToolUse", call(tmp_path, tool, arguments), "Done.")
    assert read["tool_response"] == {"filePath": f"{tmp_path}/a.py", **response}


async def test_the_response_is_an_object_for_every_call_of_claude_code(tmp_path: Path) -> None:
    async def response(tool: str, arguments: dict[str, Any], text: Any, **more: Any) -> Any:
        made = call(tmp_path, tool, arguments, **more)
        return (await given(tmp_path, "claude", "PostToolUse", made, text))["tool_response"]

    read = {"type": "text", "file": {"filePath": f"{tmp_path}/a.py", "content": "1"}}
    assert await response("read_file", {"path": "a.py"}, "1") == read
    assert await response("grep", {"pattern": "x"}, "a.py:1") == {"content": "a.py:1"}
    assert await response("shell", {"command": "make"}, SHELL) == SHELL
    assert await response("mcp", {}, "4", server="db", server_tool="query") == [{"type": "text", "text": "4"}]


async def test_gemini_clis_hooks_get_a_result_for_the_model_and_one_to_show(tmp_path: Path) -> None:
    for response in (SHELL, "made\n"):
        read = await given(tmp_path, "gemini", "PostToolUse", call(tmp_path, "shell", {"command": "x"}), response)
        assert read["tool_response"] == {"llmContent": "made\n", "returnDisplay": "made\n"}


@pytest.mark.parametrize("dialect", ["native", "claude", "codex", "gemini", "cursor"])
async def test_the_error_of_a_command_is_its_output(tmp_path: Path, dialect: Dialect) -> None:
    made = call(tmp_path, "shell", {"command": "x"})
    read = await given(tmp_path, dialect, "PostToolUseFailure", made, {**SHELL, "exit_code": 1})
    assert (read["error"], read.get("error_message", "made\n")) == ("made\n", "made\n")


async def test_cursors_hooks_about_one_kind_of_call_get_its_fields(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("key = 1\n", encoding="utf-8")

    async def fields(written: str, made: ToolCallFacts, response: Any = "", *names: str) -> list[Any]:
        event: Event = "PostToolUse" if written.startswith("after") else "PreToolUse"
        read = await given(tmp_path, "cursor", event, made, response, written)
        return [read[name] for name in names]

    shell, path = call(tmp_path, "shell", {"command": "make"}), f"{tmp_path}/a.py"
    assert await fields("beforeShellExecution", shell, "", "command", "cwd") == ["make", str(tmp_path)]
    after = await fields("afterShellExecution", shell, SHELL, "command", "output", "duration")
    assert after == ["make", "made\n", 250]
    read = call(tmp_path, "read_file", {"path": "a.py"})
    assert await fields("beforeReadFile", read, "", "file_path", "content") == [path, "key = 1\n"]
    missing = call(tmp_path, "read_file", {"path": "b.py"})
    assert await fields("beforeReadFile", missing, "", "content") == [""]
    edited = await fields("afterFileEdit", call(tmp_path, "edit_file", EDIT), "", "file_path", "edits")
    assert edited == [path, [{"old_string": "1", "new_string": "2"}]]
    wrote = call(tmp_path, "write_file", {"path": "a.py", "content": "x"})
    assert await fields("afterFileEdit", wrote, "", "edits") == [[{"old_string": "", "new_string": "x"}]]
    asked = call(tmp_path, "mcp", {"sql": "1"}, server="db", server_tool="query")
    assert await fields("beforeMCPExecution", asked, "", "tool_name", "tool_input") == ["query", '{"sql": "1"}']
    (result,) = await fields("afterMCPExecution", asked, "4", "result_json")
    assert json.loads(result) == {"content": [{"type": "text", "text": "4"}]}
