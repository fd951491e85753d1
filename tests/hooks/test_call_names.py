"""A call in the words of other agents, and back."""

from typing import Any

import pytest

from agent_cli.engine.tool_calls.call_hooks import call_facts
from agent_cli.hooks.call_names import ToolCallFacts, named_calls
from agent_cli.hooks.definition import Dialect, Hook
from agent_cli.tools.files.patch_format import parse
from agent_cli.tools.registry import built_in, default_registry
from tests.rows import each_row

EDIT = {"path": "a.py", "edits": [{"old": "x", "new": "y"}]}
EDITS = {"path": "a.py", "edits": [{"old": "x", "new": "y"}, {"old": "p", "new": "q", "replace_all": True}]}
CASES: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("shell", {"command": "make", "timeout_s": 5}, {"claude": "Bash", "codex": "Bash", "gemini": "run_shell_command", "cursor": "Shell"}),
    ("edit_file", EDIT, {"claude": "Edit", "codex": "apply_patch", "gemini": "replace", "cursor": "Write"}),
    ("edit_file", EDITS, {"claude": "Edit", "codex": "apply_patch", "gemini": "replace", "cursor": "Write"}),
    ("write_file", {"path": "a.py", "content": "x\n"}, {"claude": "Write", "codex": "apply_patch", "gemini": "write_file"}),
    ("read_file", {"path": "a.py", "offset": 3}, {"claude": "Read", "gemini": "read_file", "cursor": "Read"}),
    ("grep", {"pattern": "x", "path": "src"}, {"claude": "Grep", "gemini": "grep_search"}),
    ("jobs", {"action": "send", "job": "1", "text": "git push\n"}, {"claude": "Bash", "codex": "Bash", "gemini": "run_shell_command", "cursor": "Shell", "native": "jobs"}),
    ("web_fetch", {"url": "https://example.com"}, {"claude": "WebFetch", "gemini": "web_fetch"}),
]  # fmt: skip


TYPED = {"action": "send", "job": "1", "text": "git push\n"}


@each_row(
    ("dialect", "new", "text"),
    [("claude", {"command": "git status"}, "git status\n"), ("claude", {"command": "git status\n"}, "git status\n"),
     ("claude", {"command": "git push\n"}, "git push\n"), ("native", {"command": "git status"}, "git status\n"),
     ("native", {**TYPED, "command": "git push\n", "text": "q"}, "q"), ("native", {"text": "q"}, "q")],
)  # fmt: skip
def test_what_a_hook_makes_of_typed_input_is_entered_as_that_was(
    dialect: Dialect, new: dict[str, Any], text: str
) -> None:
    (named,) = named_calls(facts("jobs", TYPED), dialect)
    assert named.back is not None and named.back(new) == {**TYPED, "text": text}


def facts(tool: str, arguments: dict[str, Any], **more: Any) -> ToolCallFacts:
    return ToolCallFacts("c1", tool, arguments, "/work", **more)


@each_row(("tool", "arguments", "names"), CASES)
def test_a_call_has_the_name_that_each_agent_knows(
    tool: str, arguments: dict[str, Any], names: dict[str, str]
) -> None:
    for dialect, name in names.items():
        (named,) = named_calls(facts(tool, arguments), dialect)  # type: ignore[arg-type]
        assert named.name == name and tool in named.names


@each_row(("tool", "arguments", "names"), CASES)
@each_row("dialect", ["native", "claude", "codex", "gemini", "cursor"])
def test_an_input_that_comes_back_unchanged_is_the_same_call(
    tool: str, arguments: dict[str, Any], names: dict[str, str], dialect: str
) -> None:
    for named in named_calls(facts(tool, arguments), dialect):  # type: ignore[arg-type]
        if named.back is not None:
            registry = default_registry()
            assert registry.parse(tool, _json(named.back(named.input))) == registry.parse(tool, _json(arguments))


@each_row("written", ["null", "inf", "nan", None])
@each_row("dialect", ["claude", "codex", "gemini", "cursor"])
def test_a_time_limit_that_is_none_is_left_out(written: str | None, dialect: str) -> None:
    call = {"command": "make", "timeout_s": written}
    default_registry().parse("shell", _json(call))
    (named,) = named_calls(facts("shell", call), dialect)  # type: ignore[arg-type]
    assert named.input == {"command": "make"}


def _json(value: dict[str, Any]) -> str:
    import json

    return json.dumps(value)


def test_paths_are_absolute_and_come_back_changed() -> None:
    (named,) = named_calls(facts("write_file", {"path": "a.py", "content": "x"}), "claude")
    assert named.input["file_path"] == "/work/a.py" and named.back is not None
    assert named.back({**named.input, "file_path": "/work/b.py"})["path"] == "/work/b.py"


def test_several_edits_of_a_file_are_seen_by_a_guard_that_knows_one() -> None:
    for dialect in ("claude", "codex", "gemini", "cursor"):
        (named,) = named_calls(facts("edit_file", EDITS), dialect)  # type: ignore[arg-type]
        assert (named.input["old_string"], named.input["new_string"]) == ("x\np", "y\nq")
        assert [edit["new_string"] for edit in named.input["edits"]] == ["y", "q"]
        assert dialect != "claude" or named.names == ("Edit", "MultiEdit", "edit_file")


@each_row(
    ("dialect", "names", "matchers"),
    [
        ("claude", ["Write", "Edit", "Edit"], ("Edit|Write", "MultiEdit", "apply_patch")),
        ("gemini", ["write_file", "replace", "replace"], ("write_file|replace", "write_file", "apply_patch")),
        ("cursor", ["Write", "Write", "Delete"], ("Write", "Edit", "apply_patch")),
    ],
)
def test_the_files_of_a_patch_have_the_names_and_texts_of_single_changes(
    dialect: str, names: list[str], matchers: tuple[str, ...]
) -> None:
    """A guard of another agent that looks at the new text sees that of a patch too."""
    patch = (
        "*** Begin Patch\n*** Add File: new.py\n+KEY = 1\n+x\n*** Update File: a.py\n@@\n-one\n+two\n@@\n-3\n+4\n"
        "*** Delete File: old.py\n*** End Patch\n"
    )
    call = call_facts("c1", "apply_patch", {"patch": patch}, "/work")
    found = named_calls(call, dialect)  # type: ignore[arg-type]
    assert [named.name for named in found] == names
    assert [named.input["file_path"] for named in found] == ["/work/new.py", "/work/a.py", "/work/old.py"]
    assert found[0].input["content"] == "KEY = 1\nx\n"
    assert (found[1].input["old_string"], found[1].input["new_string"]) == ("one\n\n3\n", "two\n\n4\n")
    for matcher in matchers:
        hook = Hook("PreToolUse", "true", matcher)
        assert all(hook.is_for(named.names) for named in found)


def test_codex_gets_every_change_as_a_patch() -> None:
    for tool, arguments, lines in (
        ("edit_file", EDITS, ["*** Update File: a.py", "@@", "-x", "+y", "@@", "-p", "+q"]),
        ("write_file", {"path": "a.py", "content": "x\ny\n"}, ["*** Add File: a.py", "+x", "+y"]),
    ):
        (named,) = named_calls(facts(tool, arguments), "codex")  # type: ignore[arg-type]
        assert named.input["command"].splitlines()[1:-1] == lines
        assert parse(named.input["command"])[0].path == "a.py"
        assert named.back is not None and named.back({"command": named.input["command"]}) == arguments
        with pytest.raises(ValueError, match="another patch"):
            named.back({"command": "*** Begin Patch"})
    (named,) = named_calls(facts("apply_patch", {"patch": "…"}), "codex")
    assert named.input == {"command": "…"} and named.back is not None
    assert named.back({"command": "other"}) == {"patch": "other"}


def test_sub_agents_skills_and_plans_have_the_fields_of_claude_code() -> None:
    def input_(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        (named,) = named_calls(facts(tool, arguments), "claude")
        return named.input

    task = {"task": "Look at all of it.\nThen say.", "type": "explore"}
    assert input_("agent", task) == {
        "prompt": task["task"], "subagent_type": "Explore", "description": "Look at all of it. Then say.",
    }  # fmt: skip
    assert input_("skill", {"name": "pdf", "arguments": "a"}) == {"skill": "pdf", "args": "a"}
    assert input_("update_plan", {"items": [{"text": "x", "status": "done"}]}) == {
        "todos": [{"content": "x", "status": "completed", "activeForm": "x"}]
    }
    (named,) = named_calls(facts("agent", task), "claude")
    assert named.back is not None and named.back(named.input) == task
    assert named.back({**named.input, "prompt": "p", "subagent_type": "critic"}) == {"task": "p", "type": "critic"}


def test_a_patch_is_asked_about_file_by_file() -> None:
    call = facts("apply_patch", {"patch": "…"}, paths=("/work/a", "/work/b"))
    assert [named.input["file_path"] for named in named_calls(call, "claude")] == ["/work/a", "/work/b"]
    (whole,) = named_calls(call, "codex")
    assert whole.name == "apply_patch"


def test_a_tool_of_a_server_has_the_name_that_each_agent_gives_it() -> None:
    call = facts("mcp__db__query", {"sql": "select 1"}, server="db", server_tool="query")
    assert named_calls(call, "claude")[0].name == "mcp__db__query"
    assert named_calls(call, "gemini")[0].name == "mcp_db_query"
    assert named_calls(call, "cursor")[0].name == "MCP:query"


@each_row("tool", [tool.name for tool in built_in()])
@each_row("dialect", ["native", "claude", "codex", "gemini", "cursor"])
def test_every_tool_has_a_name_in_every_dialect(tool: str, dialect: str) -> None:
    assert all(named.name for named in named_calls(facts(tool, {}), dialect))  # type: ignore[arg-type]
