"""Translate a tool call into the terms of another agent: its names and input there, and back.

Hooks written for other agents test `tool_name` and read `tool_input`; they return new input in the same terms.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from agent_cli.protocol.actions import Action

from .definition import Dialect

Json = dict[str, Any]


class ToolCallFacts(msgspec.Struct, frozen=True):
    """A call as the engine knows it."""

    call_id: str
    tool: str
    arguments: Json
    folder: str
    """Absolute path to which relative paths refer."""
    server: str = ""
    """The MCP server if the call is for one of its tools."""
    server_tool: str = ""
    paths: tuple[str, ...] = ()
    """Absolute paths that a patch writes."""
    actions: tuple[Action, ...] = ()
    """The actions of the call."""


class NamedCall(msgspec.Struct, frozen=True):
    """A call, or a part of one, in the terms of another agent."""

    name: str
    aliases: tuple[str, ...]
    input: Json
    back: Callable[[Json], Json] | None = None
    """Converts a changed input to our arguments; None if it cannot be changed."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names that a matcher may use."""
        return (self.name, *self.aliases)


def named_calls(call: ToolCallFacts, dialect: Dialect) -> tuple[NamedCall, ...]:
    """Return a call in the terms of a dialect: one value, or one for each file of a patch."""
    if dialect == "native":
        return (NamedCall(call.tool, (), dict(call.arguments), dict),)
    if call.server:
        return (_of_server(call, dialect),)
    if call.tool == "apply_patch" and dialect != "codex":
        return tuple(_patched(call, path) for path in call.paths) or (_patched(call, ""),)
    table = {"gemini": _GEMINI, "codex": _CODEX, "cursor": _CURSOR}.get(dialect, _CLAUDE)
    name, aliases = table.get(call.tool) or _CLAUDE.get(call.tool) or (call.tool, ())
    if call.tool == "edit_file" and dialect == "claude" and len(call.arguments.get("edits", ())) > 1:
        name, aliases = "MultiEdit", ("Edit",)
    input_, back = _input(call, dialect)
    return (NamedCall(name, (*aliases, call.tool), input_, back),)


def _of_server(call: ToolCallFacts, dialect: Dialect) -> NamedCall:
    usual = f"mcp__{call.server}__{call.server_tool}"
    name = {"gemini": f"mcp_{call.server}_{call.server_tool}", "cursor": f"MCP:{call.server_tool}"}.get(
        dialect, usual
    )
    return NamedCall(name, (usual, call.tool), dict(call.arguments), dict)


def _patched(call: ToolCallFacts, path: str) -> NamedCall:
    input_ = {"file_path": path, "patch": call.arguments.get("patch", "")}
    return NamedCall("Edit", ("Write", "MultiEdit", "apply_patch"), input_)


_CLAUDE: dict[str, tuple[str, tuple[str, ...]]] = {
    "shell": ("Bash", ()),
    "edit_file": ("Edit", ()),
    "write_file": ("Write", ()),
    "read_file": ("Read", ()),
    "grep": ("Grep", ()),
    "glob": ("Glob", ()),
    "list_dir": ("LS", ()),
    "web_fetch": ("WebFetch", ()),
    "web_search": ("WebSearch", ()),
    "ask_user": ("AskUserQuestion", ()),
    "update_plan": ("TodoWrite", ()),
    "jobs": ("TaskOutput", ("BashOutput", "TaskStop", "KillShell")),
    "agent": ("Agent", ("Task",)),
}
_CODEX: dict[str, tuple[str, tuple[str, ...]]] = {
    "edit_file": ("apply_patch", ("Edit", "Write")),
    "write_file": ("apply_patch", ("Edit", "Write")),
    "apply_patch": ("apply_patch", ("Edit", "Write")),
}
_GEMINI: dict[str, tuple[str, tuple[str, ...]]] = {
    "shell": ("run_shell_command", ()),
    "edit_file": ("replace", ()),
    "grep": ("grep_search", ()),
    "list_dir": ("list_directory", ()),
    "web_search": ("google_web_search", ()),
    "update_plan": ("write_todos", ()),
    "agent": ("invoke_agent", ()),
    "write_file": ("write_file", ()),
    "read_file": ("read_file", ()),
    "glob": ("glob", ()),
    "web_fetch": ("web_fetch", ()),
    "ask_user": ("ask_user", ()),
}
_CURSOR: dict[str, tuple[str, tuple[str, ...]]] = {
    "shell": ("Shell", ("Bash",)),
    "edit_file": ("Write", ("Edit",)),
    "agent": ("Task", ()),
}


def _input(call: ToolCallFacts, dialect: Dialect) -> tuple[Json, Callable[[Json], Json] | None]:
    given = call.arguments
    match call.tool:
        case "shell":
            return _shell_input(given, dialect)
        case "edit_file":
            return _edit_input(call)
        case "write_file" | "read_file":
            return _file_input(call)
        case "web_fetch":
            return {"url": given.get("url", ""), "prompt": ""}, lambda new: {**given, "url": new.get("url", "")}
        case "ask_user":
            options = [{"label": option} for option in given.get("options", ())]
            return {"questions": [{"question": given.get("question", ""), "options": options}]}, None
        case "grep" | "glob" | "list_dir":
            input_ = {**given, "path": _absolute(call, str(given.get("path", ".")))}
            return input_, partial(_searched, call)
        case _:
            return dict(given), dict


def _shell_input(given: Json, dialect: Dialect) -> tuple[Json, Callable[[Json], Json]]:
    input_: Json = {"command": given.get("command", "")}
    if given.get("description"):
        input_["description"] = given["description"]
    with suppress(TypeError, ValueError, OverflowError):  # none, or as text `null` or `inf`, which are no limit
        input_["timeout"] = int(float(given.get("timeout_s", "")) * 1000)
    if given.get("background"):
        input_["is_background" if dialect == "gemini" else "run_in_background"] = True

    def back(new: Json) -> Json:
        made = {**given, "command": new.get("command", "")}
        if isinstance(timeout := new.get("timeout"), int | float):
            made["timeout_s"] = timeout / 1000
        return made

    return input_, back


def _edit_input(call: ToolCallFacts) -> tuple[Json, Callable[[Json], Json]]:
    given = call.arguments
    edits = [
        {
            "old_string": edit.get("old", ""),
            "new_string": edit.get("new", ""),
            "replace_all": bool(edit.get("replace_all", False)),
        }
        for edit in given.get("edits", ())
        if isinstance(edit, Mapping)
    ]
    path = _absolute(call, str(given.get("path", "")))
    input_: Json = {"file_path": path, **edits[0]} if len(edits) == 1 else {"file_path": path, "edits": edits}

    def back(new: Json) -> Json:
        listed = new.get("edits") or [new]
        made = [
            {"old": each.get("old_string", ""), "new": each.get("new_string", "")}
            | ({"replace_all": True} if each.get("replace_all") else {})
            for each in listed
        ]
        return {**given, "path": _relative(call, new.get("file_path")), "edits": made}

    return input_, back


def _file_input(call: ToolCallFacts) -> tuple[Json, Callable[[Json], Json]]:
    given = call.arguments
    rest = {key: value for key, value in given.items() if key != "path"}
    input_ = {"file_path": _absolute(call, str(given.get("path", ""))), **rest}

    def back(new: Json) -> Json:
        kept = {key: value for key, value in new.items() if key in given or key == "content"}
        return {**kept, "path": _relative(call, new.get("file_path"))}

    return input_, back


def _searched(call: ToolCallFacts, new: Json) -> Json:
    kept = {key: new[key] for key in call.arguments if key in new}
    return {**call.arguments, **kept, **({"path": _relative(call, new.get("path"))} if "path" in kept else {})}


def _absolute(call: ToolCallFacts, path: str) -> str:
    return os.path.normpath(os.path.join(call.folder, os.path.expanduser(path)))


def _relative(call: ToolCallFacts, path: Any) -> str:
    """Return a path as written in the call if the hook left it unchanged."""
    before = str(call.arguments.get("path", ""))
    return before if path == _absolute(call, before) or not isinstance(path, str) else path
