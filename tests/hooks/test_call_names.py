"""A call in the words of other agents, and back."""

from typing import Any

from agent_cli.hooks.call_names import ToolCallFacts, named_calls
from agent_cli.tools.registry import built_in, default_registry
from tests.rows import each_row

EDIT = {"path": "a.py", "edits": [{"old": "x", "new": "y"}]}
EDITS = {"path": "a.py", "edits": [{"old": "x", "new": "y"}, {"old": "p", "new": "q", "replace_all": True}]}
CASES: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("shell", {"command": "make", "timeout_s": 5}, {"claude": "Bash", "codex": "Bash", "gemini": "run_shell_command", "cursor": "Shell"}),
    ("edit_file", EDIT, {"claude": "Edit", "codex": "apply_patch", "gemini": "replace", "cursor": "Write"}),
    ("edit_file", EDITS, {"claude": "MultiEdit", "codex": "apply_patch", "gemini": "replace", "cursor": "Write"}),
    ("write_file", {"path": "a.py", "content": "x\n"}, {"claude": "Write", "codex": "apply_patch", "gemini": "write_file"}),
    ("read_file", {"path": "a.py", "offset": 3}, {"claude": "Read", "gemini": "read_file", "cursor": "Read"}),
    ("grep", {"pattern": "x", "path": "src"}, {"claude": "Grep", "gemini": "grep_search"}),
    ("web_fetch", {"url": "https://example.com"}, {"claude": "WebFetch", "gemini": "web_fetch"}),
]  # fmt: skip


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
