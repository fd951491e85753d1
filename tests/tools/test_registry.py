"""Declarations are small, plain and always the same; wrong calls are answered with what would be right."""

import json
from typing import Annotated, Any, Literal

import msgspec
import pytest

from agent_cli.tools.kit.base import ToolError
from agent_cli.tools.kit.other_names import meant_tools
from agent_cli.tools.kit.schema import object_schema
from agent_cli.tools.registry import PRESETS, default_registry
from tests.rows import each_row

REGISTRY = default_registry()


def refused(name: str, arguments: str) -> str:
    with pytest.raises(ToolError) as caught:
        REGISTRY.parse(name, arguments)
    return str(caught.value)


def test_the_declarations_are_small_plain_and_stable() -> None:
    encoded = msgspec.json.encode(default_registry().specs())
    assert encoded == msgspec.json.encode(default_registry().specs())
    assert len(encoded) <= 8400
    for word in (b"$ref", b"$defs", b'"title"', b'"default"'):
        assert word not in encoded


def test_every_tool_is_described() -> None:
    for spec in REGISTRY.specs():
        assert 20 < len(spec.description) < 400
        assert spec.parameters["type"] == "object" and spec.parameters["additionalProperties"] is False


def test_the_schema_of_each_kind_of_field() -> None:
    class Inner(msgspec.Struct):
        kind: Literal["a", "b"]

    class Outer(msgspec.Struct):
        text: Annotated[str, msgspec.Meta(description="said")]
        many: Annotated[tuple[Inner, ...], msgspec.Meta(min_length=1)]
        share: float | None = None
        words: list[str] = []
        on: bool = False

    assert object_schema(Outer) == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "said"},
            "many": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"kind": {"type": "string", "enum": ["a", "b"]}},
                    "required": ["kind"],
                    "additionalProperties": False,
                },
                "minItems": 1,
            },
            "share": {"type": "number"},
            "words": {"type": "array", "items": {"type": "string"}},
            "on": {"type": "boolean"},
        },
        "required": ["text", "many"],
        "additionalProperties": False,
    }

    class Strange(msgspec.Struct):
        anything: dict[str, Any]

    with pytest.raises(TypeError):
        object_schema(Strange)


def test_the_order_is_fixed_and_ask_user_needs_a_person() -> None:
    names = default_registry().names
    assert names[:4] == ("read_file", "list_dir", "glob", "grep") and len(set(names)) == len(names)
    assert default_registry((), interactive=False).names == tuple(name for name in names if name != "ask_user")
    assert default_registry(("shell", "read_file")).names == ("read_file", "shell")
    with pytest.raises(ToolError, match="Did you mean shell"):
        default_registry(("shel",))


def test_presets_and_names_are_put_together_and_left_out() -> None:
    everything = default_registry().names
    assert default_registry(("full",)).names == everything
    assert default_registry(("-shell", "-read-only")).names == tuple(
        name for name in everything if name not in (*PRESETS["read-only"], "shell", "jobs")
    )
    core = default_registry(("core", "recall", "-shell")).names
    assert set(core) == {*PRESETS["core"], "recall"} - {"shell", "jobs"}
    looking = default_registry(("read-only",))
    assert not {"shell", "edit_file", "write_file", "jobs"} & set(looking.names)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_name_tools_that_exist(preset: str) -> None:
    assert set(PRESETS[preset]) <= set(default_registry().names)


def test_an_unknown_tool_brings_the_nearest_names() -> None:
    assert "Did you mean read_file" in refused("readfile", "{}")
    assert "The tools are: read_file, list_dir" in refused("zzzz", "{}")


@each_row(
    ("name", "tool"),
    [
        ("Bash", "shell"), ("run_shell_command", "shell"), ("execute_command", "shell"), ("search", "grep"),
        ("find", "glob"), ("create_file", "write_file"), ("str_replace_editor", "edit_file or apply_patch"),
    ],
)  # fmt: skip
def test_a_tool_named_as_in_another_agent_brings_ours(name: str, tool: str) -> None:
    assert f"Did you mean {tool}?" in refused(name, "{}")


def test_only_tools_that_exist_are_meant() -> None:
    assert meant_tools("str_replace", ("apply_patch", "shell")) == ["apply_patch"]
    assert meant_tools("Bash", ("read_file", "grep")) == []


def test_arguments_that_are_not_json_are_placed() -> None:
    said = refused("shell", '{"command":\n "ls",}')
    assert "line 2, column 7" in said and "Nothing was run" in said
    assert "truncated" in refused("shell", '{"command": "l')
    assert "Nothing was run" in refused("shell", '{"command": "\ud800"}x')


@each_row(
    ("arguments", "kind"),
    [("[]", "an array"), ('"x"', "a string"), ("3", "a number"), ("null", "null"), ("true", "a boolean")],
)
def test_arguments_must_be_an_object(arguments: str, kind: str) -> None:
    assert f"must be a JSON object, not {kind}" in refused("shell", arguments)


def test_violations_name_the_path_and_the_fields() -> None:
    said = refused("edit_file", '{"path": "a", "edits": [{"old": "x"}]}')
    assert "missing required field `new` - at `$.edits[0]`" in said
    assert "path (string, required), edits (array, required)" in said
    assert "unknown field `file`" in refused("read_file", '{"file": "a"}')
    assert "missing required field `command`" in refused("shell", "")


def test_lossless_coercions() -> None:
    _, params = REGISTRY.parse("read_file", '{"path": "a", "offset": "3", "limit": 4.0}')
    assert (params.offset, params.limit) == (3, 4)
    _, params = REGISTRY.parse(
        "edit_file", json.dumps({"path": "a", "edits": json.dumps([{"old": "x", "new": "y"}])})
    )
    assert params.edits[0].new == "y"
    _, params = REGISTRY.parse("write_file", json.dumps({"path": "a", "content": "[1]"}))
    assert params.content == "[1]"
    _, params = REGISTRY.parse("grep", '{"pattern": "x", "glob": null, "limit": null}')
    assert (params.glob, params.limit) == ("", 100)
    nulls = {"path": "a", "edits": [{"old": "x", "new": "[y]", "replace_all": None}]}
    _, params = REGISTRY.parse("edit_file", json.dumps(nulls))
    assert params.edits[0].new == "[y]" and not params.edits[0].replace_all
    assert "`pattern`" in refused("grep", '{"pattern": null}') or "`$.pattern`" in refused(
        "grep", '{"pattern": null}'
    )
    _, params = REGISTRY.parse("list_dir", "  ")
    assert params.path == "."


EDITED = {"path": "a.py", "edits": [{"old": "x", "new": "y"}]}
TWICE = {"path": "a.py", "edits": [{"old": "x", "new": "y"}, {"old": "z", "new": "", "replace_all": True}]}
OTHERS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "Claude Code edits": ("edit_file", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, EDITED),
    "Claude Code edits often": (
        "edit_file",
        {
            "file_path": "a.py",
            "edits": [
                {"old_string": "x", "new_string": "y"},
                {"old_string": "z", "new_string": "", "replace_all": True},
            ],
        },
        TWICE,
    ),
    "edits as text": (
        "edit_file",
        {"path": "a.py", "edits": '[{"old_string": "x", "new_string": "y"}]'},
        EDITED,
    ),
    "our own names, one edit": ("edit_file", {"path": "a.py", "old": "x", "new": "y"}, EDITED),
    "the text editor": ("edit_file", {"path": "a.py", "old_str": "x", "new_str": "y"}, EDITED),
    "OpenCode": ("edit_file", {"filePath": "a.py", "oldString": "x", "newString": "y"}, EDITED),
    "Gemini CLI edits": (
        "edit_file",
        {"file_path": "a.py", "old_string": "x", "new_string": "y", "instruction": "Rename x."},
        EDITED,
    ),
    "Gemini CLI reads": ("read_file", {"absolute_path": "/a.py", "limit": 3}, {"path": "/a.py", "limit": 3}),
    "Gemini CLI searches": (
        "grep",
        {"pattern": "x", "dir_path": "src", "include": "*.py"},
        {"pattern": "x", "path": "src", "glob": "*.py"},
    ),
    "Cursor": (
        "read_file",
        {"target_file": "a.py", "explanation": "To see it.", "justification": "", "offset": None},
        {"path": "a.py"},
    ),
    "Claude Code fetches": (
        "web_fetch",
        {"url": "https://example.org", "prompt": "What does it say?"},
        {"url": "https://example.org"},
    ),
    "a text that looks like JSON": (
        "write_file",
        {"file_path": "a.json", "content": "[1]"},
        {"path": "a.json", "content": "[1]"},
    ),
    "Codex runs": ("shell", {"cmd": "ls"}, {"command": "ls"}),
    "Codex runs a script": ("shell", {"command": ["bash", "-lc", "ls | wc"]}, {"command": "ls | wc"}),
    "Codex runs a program": ("shell", {"command": ["cat", "a b", "$x"]}, {"command": "cat 'a b' '$x'"}),
    "Codex plans": ("update_plan", {"plan": [{"step": "Look", "status": "pending"}], "explanation": ""},
                    {"items": [{"text": "Look", "status": "pending"}]}),
}  # fmt: skip


@each_row("name, written, understood", OTHERS.values())
def test_arguments_under_the_names_of_other_agents(
    name: str, written: dict[str, Any], understood: dict[str, Any]
) -> None:
    read = REGISTRY.read(name, json.dumps(written))
    assert (read.arguments, json.loads(read.text)) == (understood, understood)
    assert read.params == REGISTRY.parse(name, json.dumps(understood))[1]


UNCLEAR: dict[str, tuple[str, dict[str, Any]]] = {
    "two paths": ("read_file", {"path": "a", "file_path": "b"}),
    "two paths by other names": ("read_file", {"filePath": "a", "file_path": "b"}),
    "two times": ("shell", {"command": "ls", "timeout": 5000, "timeout_ms": 5000}),
    "a list and a single edit": (
        "edit_file",
        {"path": "a", "edits": [{"old": "x", "new": "y"}], "old_string": "z", "new_string": ""},
    ),
    "an edit without its new text": ("edit_file", {"file_path": "a", "old_string": "x"}),
    "a command of other things": ("shell", {"command": ["ls", 3]}),
    "no command": ("shell", {"command": []}),
    "something that matters": ("grep", {"pattern": "x", "output_mode": "count"}),
    "a path that is a remark": ("read_file", {"description": "a"}),
}


@each_row("name, written", UNCLEAR.values())
def test_unclear_arguments_are_refused(name: str, written: dict[str, Any]) -> None:
    assert "Wrong arguments" in refused(name, json.dumps(written))


def test_arguments_in_our_own_names_stay_as_they_are_written() -> None:
    written = '{"path":  "a", "offset": "3"}'
    assert REGISTRY.read("read_file", written).text == written


def test_what_is_wrong_is_said_once_other_names_are_understood() -> None:
    said = refused("write_file", '{"file_path": "a", "contents": "b", "overwrite": true}')
    assert "unknown field `overwrite`" in said and "file_path" not in said
    said = refused("shell", '{"command": ["ls"], "tty": true, "env": {}, "timeout_ms": 1}')
    assert "unknown fields `tty`, `env`." in said
    said = refused("grep", '{"query": "x", "limit": "many"}')
    assert "Expected `int | null`" in said or "Expected `int`" in said


def test_short_options_of_a_search_are_understood() -> None:
    _, params = REGISTRY.parse("grep", '{"pattern": "x", "-i": true, "-C": 2, "head_limit": 3}')
    assert (params.ignore_case, params.context, params.limit) == (True, 2, 3)
