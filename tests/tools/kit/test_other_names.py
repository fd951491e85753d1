"""Arguments under the names of other agents."""

import json

import pytest

from agent_cli.protocol.messages import PlanItem
from agent_cli.tools.kit.base import ToolError
from agent_cli.tools.kit.other_names import own_arguments, own_call
from tests.tools.calls import REGISTRY

TASK = {"type": "object", "properties": {"task": {"type": "string"}, "type": {"type": "string"}}}


def test_a_prompt_is_a_task_or_a_remark_but_never_lost_beside_a_task() -> None:
    claude = {"description": "Fix it", "prompt": "All of it", "subagent_type": "general"}
    assert own_arguments(TASK, claude) == {"task": "All of it", "type": "general"}
    both = {"task": "Fix it", "prompt": "All of it"}
    assert own_arguments(TASK, both) == both, "refused, because the tool has no such argument"
    page = {"type": "object", "properties": {"url": {"type": "string"}}}
    assert own_arguments(page, {"url": "x", "prompt": "What is it?"}) == {"url": "x"}


def test_what_a_value_means_beyond_doubt_needs_no_second_call() -> None:
    def read(name: str, **arguments: object) -> object:
        return REGISTRY.parse(name, json.dumps(arguments))[1]

    assert read("jobs", action="kill", job=1) == read("jobs", action="stop", job="1")
    assert read("jobs", action="wait", job=1, wait_s=5) == read("jobs", action="read", job="1", wait_s=5)
    assert read("grep", pattern="x", output_mode="content", **{"-n": True}) == read("grep", pattern="x")
    assert read("grep", pattern="x", output_mode="files_with_matches") == read(
        "grep", pattern="x", files_only=True
    )
    note = {"block": "notes", "text": "x"}
    assert read("memory", action="add", **note) == read("memory", action="append", **note)
    assert read("grep", pattern=404) == read("grep", pattern="404")
    assert read("edit_file", path="f", edits={"old": "a", "new": "b"}) == read(
        "edit_file", path="f", edits=[{"old": "a", "new": "b"}]
    )
    codex = read("update_plan", plan=[{"step": "Test", "status": "completed"}])
    claude = read("update_plan", todos=[{"content": "Test", "status": "completed", "activeForm": "Testing"}])
    assert codex == claude == read("update_plan", items=[{"text": "Test", "status": "done"}])
    assert getattr(codex, "items", ()) == (PlanItem("Test", "done"),)
    for doubtful in ({"pattern": True}, {"pattern": 1.5}, {"pattern": ["a"]}):
        with pytest.raises(ToolError):
            read("grep", **doubtful)


@pytest.mark.parametrize(
    ("name", "given", "meant"),
    [
        ("BashOutput", {"bash_id": "1"}, {"action": "read", "job": "1"}),
        (
            "TaskOutput",
            {"task_id": "1", "block": True, "timeout": 3000},
            {"action": "read", "job": "1", "wait_s": 3},
        ),
        ("TaskOutput", {"task_id": "1", "block": False, "timeout": 3000}, {"action": "read", "job": "1"}),
        ("KillShell", {"shell_id": "1"}, {"action": "stop", "job": "1"}),
        ("TaskStop", {"task_id": "1"}, {"action": "stop", "job": "1"}),
        ("KillBash", {"action": "list"}, {"action": "list"}),
    ],
)
def test_what_only_the_name_of_a_call_says_becomes_the_action(
    name: str, given: dict[str, object], meant: dict[str, object]
) -> None:
    called, arguments = own_call(name, json.dumps(given), REGISTRY.names)
    assert REGISTRY.parse(called, arguments) == REGISTRY.parse("jobs", json.dumps(meant))


def test_arguments_that_are_no_object_stay_as_they_are() -> None:
    for broken in ("", "{", "[1]"):
        assert own_call("KillShell", broken, REGISTRY.names) == ("jobs", broken)
    assert own_call("KillShell", '{"shell_id":"1"}', ("KillShell",)) == ("KillShell", '{"shell_id":"1"}')


def test_times_and_ranges_of_lines_are_taken_in_the_units_of_other_agents() -> None:
    def read(name: str, **arguments: object) -> object:
        return REGISTRY.parse(name, json.dumps(arguments))[1]

    assert read("shell", command="ls", timeout_ms=1500) == read("shell", command="ls", timeout_s=1.5)
    assert read("shell", command="ls", timeout=120_000) == read("shell", command="ls", timeout_s=120)
    assert read("shell", command="ls", timeout=1000) == read("shell", command="ls", timeout_s=1)
    assert read("shell", command="ls", timeout=999) == read("shell", command="ls", timeout_s=999)
    part = read("read_file", path="f", offset=30, limit=21)
    assert read("read_file", path="f", start_line=30, end_line=50) == part
    assert read("read_file", file_path="f", startLine="30", endLine="50") == part
    assert read("read_file", path="f", view_range=[30, 50]) == part
    assert read("read_file", path="f", view_range=[30, -1]) == read("read_file", path="f", offset=30)
    assert read("read_file", path="f", start_line=30) == read("read_file", path="f", offset=30)
    assert read("read_file", path="f", end_line=9) == read("read_file", path="f", limit=9)
    for doubtful in (
        {"start_line": 5, "end_line": 4},
        {"start_line": 5, "offset": 4},
        {"start_line": True, "end_line": "x"},
        {"view_range": [1, 2, 3]},
        {"start_line": 1, "view_range": [1, 2]},
    ):
        with pytest.raises(ToolError):
            read("read_file", path="f", **doubtful)
    with pytest.raises(ToolError):
        read("shell", command="ls", timeout_ms=1500, timeout_s=1)
    with pytest.raises(ToolError):
        read("shell", command="ls", timeout_ms=1500, timeout=2)
    with pytest.raises(ToolError):
        read("edit_file", path="f", start_line=1, end_line=2)


def test_a_word_that_a_field_does_not_take_is_answered_with_those_it_takes() -> None:
    with pytest.raises(
        ToolError, match=r"action \(append/replace/insert/rewrite, required\), block \(string, req"
    ):
        REGISTRY.parse("memory", '{"action": "note", "block": "notes", "text": "x"}')


@pytest.mark.parametrize(
    ("name", "given", "meant"),
    [
        ("grep", {"pattern": "x", "-A": 3, "-B": 1}, {"pattern": "x", "context": 3}),
        ("grep", {"pattern": "x", "-A": 1, "-B": 3}, {"pattern": "x", "context": 3}),
        ("grep", {"pattern": "x", "type": "py", "-C": 2}, {"pattern": "x", "glob": "*.{py,pyi}", "context": 2}),
        ("grep", {"query": "x", "caseSensitive": False}, {"pattern": "x", "ignore_case": True}),
        ("grep", {"pattern": "x", "multiline": False, "isRegexp": True}, {"pattern": "x"}),
        ("grep", {"pattern": "x", "head_limit": 0, "offset": 0}, {"pattern": "x"}),
        (
            "edit_file",
            {"filePath": "f", "oldString": "a", "newString": "b", "replaceAll": True},
            {"path": "f", "edits": [{"old": "a", "new": "b", "replace_all": True}]},
        ),
        (
            "edit_file",
            {"file_path": "f", "old_string": "a", "new_string": "b", "expected_replacements": 1},
            {"path": "f", "edits": [{"old": "a", "new": "b"}]},
        ),
        (
            "edit_file",
            {
                "path": "f",
                "edits": [{"old": "a", "new": "b"}, {"old": "c", "new": "d", "replace_all": False}],
                "replace_all": True,
            },
            {"path": "f", "edits": [{"old": "a", "new": "b", "replace_all": True}, {"old": "c", "new": "d"}]},
        ),
        (
            "edit_file",
            {"file_path": "f", "old_string": "a", "new_string": "b", "allow_multiple": True},
            {"path": "f", "edits": [{"old": "a", "new": "b", "replace_all": True}]},
        ),
        ("ask_user", {"questions": [{"question": "A?"}]}, {"question": "A?", "options": []}),
        ("update_plan", {"todos": [{"content": "a"}], "merge": False}, {"items": [{"text": "a"}]}),
        ("shell", {"command": "ls", "timeout": 0, "goal": "See it"}, {"command": "ls"}),
        ("shell", {"command": "ls", "sandbox_permissions": "use_default", "login": True}, {"command": "ls"}),
        ("shell", {"command": "ls", "with_escalated_permissions": False}, {"command": "ls"}),
        ("shell", {"command": "ls", "dangerouslyDisableSandbox": False}, {"command": "ls"}),
        ("jobs", {"action": "read", "id": 1}, {"action": "read", "job": "1"}),
    ],
)
def test_what_an_argument_of_another_agent_means_needs_no_second_call(
    name: str, given: dict[str, object], meant: dict[str, object]
) -> None:
    assert REGISTRY.parse(name, json.dumps(given)) == REGISTRY.parse(name, json.dumps(meant))


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("grep", {"pattern": "x", "multiline": True}),
        ("edit_file", {"path": "f", "edits": [{"old": "a", "new": "b"}], "new": "c"}),
        ("grep", {"pattern": "x", "output_mode": "count", "-A": 1}),
        ("grep", {"pattern": "x", "type": "py", "glob": "a*"}),
        ("grep", {"pattern": "x", "type": "cobol"}),
        ("grep", {"pattern": "x", "context": 1, "-A": 2}),
        ("edit_file", {"path": "f", "old_string": "a", "new_string": "b", "expected_replacements": 2}),
        ("update_plan", {"todos": [{"content": "a"}], "merge": True}),
        ("ask_user", {"questions": [{"question": "A?"}, {"question": "B?"}]}),
        ("shell", {"command": "ls", "restart": True}),
    ],
)
def test_what_ours_cannot_do_is_refused(name: str, given: dict[str, object]) -> None:
    with pytest.raises(ToolError):
        REGISTRY.parse(name, json.dumps(given))


def test_a_list_of_one_question_is_the_question_with_its_options() -> None:
    asked = {
        "question": "Which?", "header": "DB", "multiSelect": False,
        "options": [{"label": "pg", "description": "a server"}, {"label": "sqlite", "description": ""}, "none"],
    }  # fmt: skip
    options = ["pg: a server", "sqlite", "none"]
    ours = REGISTRY.parse("ask_user", json.dumps({"question": "Which?", "options": options}))
    assert REGISTRY.parse("ask_user", json.dumps({"questions": [asked]})) == ours


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ({"command": "npm test | tail -5 2>&1", "workdir": "web"}, "(cd web && npm test | tail -5 2>&1)"),
        ({"command": ["bash", "-lc", "ls && pwd"], "workdir": "my app"}, "(cd 'my app' && ls && pwd)"),
        ({"command": "ls", "dir_path": "."}, "ls"),
        ({"cmd": "a; b", "cwd": ""}, "a; b"),
        ({"command": "a &> log", "cwd": "web"}, "(cd web && a &> log)"),
        ({"command": "a `b`", "directory": "web"}, "(cd web && a `b`)"),
        ({"command": "a; b", "cwd": "web"}, None),
        ({"command": "a \\", "cwd": "web"}, None),
        ({"command": "a || b", "cwd": "web"}, None),
        ({"command": "a & b", "cwd": "web"}, None),
        ({"command": "a # b", "cwd": "web"}, None),
        ({"command": "cat <<E\nx\nE", "cwd": "web"}, None),
        ({"command": "a", "cwd": "web", "workdir": "src"}, None),
        ({"command": "a", "cwd": 1}, None),
    ],
)
def test_the_folder_of_one_command_is_entered_for_it_alone(given: dict[str, object], command: str | None) -> None:
    if command is None:
        with pytest.raises(ToolError, match="Object contains unknown field"):
            REGISTRY.parse("shell", json.dumps(given))
    else:
        ours = REGISTRY.parse("shell", json.dumps({"command": command}))
        assert REGISTRY.parse("shell", json.dumps(given)) == ours
