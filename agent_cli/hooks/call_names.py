"""Translate a tool call into the terms of another agent: its names and input there, and back, and its result.

Hooks written for other agents test `tool_name` and read `tool_input`; they return new input in the same terms.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from agent_cli.fs.files import read_regular
from agent_cli.protocol.actions import Action

from .definition import Dialect, Hook

Json = dict[str, Any]
_MOST_BYTES = 1_000_000
"""Maximum size of a file whose content a hook gets; of a longer one, it gets the beginning."""


class PatchedFile(msgspec.Struct, frozen=True):
    """The changes that a patch makes to one file."""

    path: str
    """Absolute path."""
    kind: Literal["add", "update", "delete"] = "update"
    edits: tuple[tuple[str, str], ...] = ()
    """Pairs of old and new text; of a new file, one pair with its content as the new text."""


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
    patched: tuple[PatchedFile, ...] = ()
    """The files that a patch changes, as far as it can be read."""


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
    if call.tool == "jobs" and call.arguments.get("action") == "send":
        return (_typed(call, dialect),)
    if dialect == "native":
        return (NamedCall(call.tool, (), dict(call.arguments), dict),)
    if call.server:
        return (_of_server(call, dialect),)
    if call.tool == "apply_patch" and dialect != "codex":
        return tuple(_patched(call, file, dialect) for file in _files_of(call))
    name, aliases = _names_of(call.tool, dialect)
    input_, back = _input(call, dialect)
    return (NamedCall(name, (*aliases, call.tool), input_, back),)


def _names_of(tool: str, dialect: Dialect) -> tuple[str, tuple[str, ...]]:
    """Return the name of one of our tools in another agent, and its other names there."""
    table = {"gemini": _GEMINI, "codex": _CODEX, "cursor": _CURSOR}.get(dialect, _CLAUDE)
    return table.get(tool) or _CLAUDE.get(tool) or (tool, ())


def _typed(call: ToolCallFacts, dialect: Dialect) -> NamedCall:
    """Return input for a running command as a command, since a shell there runs it."""
    given, text = call.arguments, str(call.arguments.get("text", ""))
    command = {"command": text}

    def back(new: Json) -> Json:
        """Return our arguments. A changed command is entered as the one before it was."""
        own = {key: value for key, value in new.items() if key != "command"} if dialect == "native" else {}
        line = new.get("command", text)
        if line != text:
            own["text"] = f"{line}\n" if text.endswith("\n") and not str(line).endswith("\n") else line
        return {**given, **own}

    if dialect == "native":
        return NamedCall(call.tool, ("shell",), {**given, **command}, back)
    name, aliases = _names_of("shell", dialect)
    jobs, others = _names_of(call.tool, dialect)
    return NamedCall(name, (*aliases, "shell", jobs, *others, call.tool), command, back)


def _of_server(call: ToolCallFacts, dialect: Dialect) -> NamedCall:
    usual = f"mcp__{call.server}__{call.server_tool}"
    name = {"gemini": f"mcp_{call.server}_{call.server_tool}", "cursor": f"MCP:{call.server_tool}"}.get(
        dialect, usual
    )
    return NamedCall(name, (usual, call.tool), dict(call.arguments), dict)


def _files_of(call: ToolCallFacts) -> tuple[PatchedFile, ...]:
    """Return the files of a patch, each once, with what is known of their changes."""
    known = {path for file in call.patched for path in (file.path, os.path.realpath(file.path))}
    return (*call.patched, *(PatchedFile(path) for path in call.paths if path not in known)) or (PatchedFile(""),)


def _patched(call: ToolCallFacts, file: PatchedFile, dialect: Dialect) -> NamedCall:
    """Return the change of a patch to one file as the call that makes such a change in another agent."""
    input_: Json = {"file_path": file.path, "patch": call.arguments.get("patch", "")}
    if file.kind == "add":
        input_["content"] = "".join(new for _, new in file.edits)
    elif file.edits:
        input_ |= _replacements(
            [{"old_string": old, "new_string": new, "replace_all": False} for old, new in file.edits]
        )
    names = _PATCHES.get(dialect, _PATCHES["claude"])
    name = names[file.kind]
    others = dict.fromkeys((*names.values(), *(() if dialect == "gemini" else ("Edit", "Write", "MultiEdit"))))
    return NamedCall(name, (*(each for each in others if each != name), "apply_patch"), input_)


_PATCHES: dict[Dialect, dict[Literal["add", "update", "delete"], str]] = {
    "claude": {"add": "Write", "update": "Edit", "delete": "Edit"},
    "gemini": {"add": "write_file", "update": "replace", "delete": "replace"},
    "cursor": {"add": "Write", "update": "Write", "delete": "Delete"},
}
_CLAUDE: dict[str, tuple[str, tuple[str, ...]]] = {
    "shell": ("Bash", ()),
    "edit_file": ("Edit", ("MultiEdit",)),
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
    "skill": ("Skill", ()),
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
    "skill": ("activate_skill", ()),
}
_CURSOR: dict[str, tuple[str, tuple[str, ...]]] = {
    "shell": ("Shell", ("Bash",)),
    "edit_file": ("Write", ("Edit",)),
    "agent": ("Task", ()),
}


_TYPES: dict[Dialect, dict[str, str]] = {
    "claude": {"general": "general-purpose", "explore": "Explore"},
    "cursor": {"general": "generalPurpose"},
}
"""Built-in types of sub-agents by their names in other agents."""
_PLAN_STATES = {"done": "completed"}


def type_names(kind: str, dialect: Dialect) -> tuple[str, ...]:
    """Return the names of a type of sub-agents in a dialect, the usual one first."""
    return tuple(dict.fromkeys((_TYPES.get(dialect, {}).get(kind, kind), kind)))


def _input(call: ToolCallFacts, dialect: Dialect) -> tuple[Json, Callable[[Json], Json] | None]:
    given = call.arguments
    match call.tool:
        case "shell":
            return _shell_input(given, dialect)
        case "apply_patch":
            return {"command": given.get("patch", "")}, lambda new: {**given, "patch": new.get("command", "")}
        case "edit_file" | "write_file" if dialect == "codex":
            return _as_patch(call)
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
            path = _absolute(call, str(given.get("path", ".")))
            input_ = {**given, "path": path, **({"dir_path": path} if dialect == "gemini" else {})}
            return input_, partial(_searched, call)
        case "agent":
            return _agent_input(given, dialect)
        case "update_plan":
            return _plan_input(given, dialect)
        case "skill":
            return _skill_input(given, dialect)
        case _:
            return dict(given), dict


def _agent_input(given: Json, dialect: Dialect) -> tuple[Json, Callable[[Json], Json]]:
    task, kind = str(given.get("task", "")), str(given.get("type") or "general")
    name = "agent_name" if dialect == "gemini" else "subagent_type"
    rest = {key: value for key, value in given.items() if key not in ("task", "type", "background")}
    input_: Json = {"prompt": task, name: type_names(kind, dialect)[0], **rest}
    if dialect != "gemini":
        input_["description"] = " ".join(task.split())[:60]
        if given.get("background"):
            input_["run_in_background"] = True

    def back(new: Json) -> Json:
        made = {**given, "task": new.get("prompt", "")}
        return made if new.get(name) == input_[name] else {**made, "type": new.get(name, "")}

    return input_, back


def _plan_input(given: Json, dialect: Dialect) -> tuple[Json, Callable[[Json], Json] | None]:
    items = [each for each in given.get("items", ()) if isinstance(each, Mapping)]
    text = "description" if dialect == "gemini" else "content"
    todos = []
    for each in items:
        said, state = each.get("text", ""), each.get("status", "pending")
        todo = {text: said, "status": _PLAN_STATES.get(state, state)}
        todos.append(todo if dialect == "gemini" else {**todo, "activeForm": said})
    return {"todos": todos}, None


def _skill_input(given: Json, dialect: Dialect) -> tuple[Json, Callable[[Json], Json]]:
    name, words = ("name", "arguments") if dialect == "gemini" else ("skill", "args")
    input_ = {name: given.get("name", "")} | ({words: given["arguments"]} if given.get("arguments") else {})
    return (
        input_,
        lambda new: {**given, "name": new.get(name, "")} | ({"arguments": new[words]} if new.get(words) else {}),
    )


def _as_patch(call: ToolCallFacts) -> tuple[Json, Callable[[Json], Json]]:
    """Return an edit as Codex makes it: a patch as the `command`, beside the fields of an edit."""
    given = call.arguments
    input_, changed = _edit_input(call) if call.tool == "edit_file" else _file_input(call)
    path = given.get("path", "")
    if call.tool == "write_file":
        lines = [f"*** Add File: {path}", *_marked("+", given.get("content", ""))]
    else:
        lines = [f"*** Update File: {path}"]
        for edit in input_.get("edits", [input_]):
            lines += ["@@", *_marked("-", edit["old_string"]), *_marked("+", edit["new_string"])]
    command = "\n".join(("*** Begin Patch", *lines, "*** End Patch", ""))

    def back(new: Json) -> Json:
        if new.get("command", command) != command:
            raise ValueError("an edit cannot become another patch")
        return changed(new) if "file_path" in new else dict(given)

    return {"command": command, **input_}, back


def _marked(mark: str, text: Any) -> list[str]:
    return [f"{mark}{line}" for line in str(text).removesuffix("\n").split("\n")]


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
    input_: Json = {"file_path": path, **_replacements(edits)}

    def back(new: Json) -> Json:
        listed = new.get("edits") or [new]
        if len(edits) > 1 and any(new.get(key) != input_[key] for key in ("old_string", "new_string")):
            raise ValueError("which of the edits is changed is not said")
        made = [
            {"old": each.get("old_string", ""), "new": each.get("new_string", "")}
            | ({"replace_all": True} if each.get("replace_all") else {})
            for each in listed
        ]
        return {**given, "path": _relative(call, new.get("file_path")), "edits": made}

    return input_, back


def _replacements(edits: list[Json]) -> Json:
    """Return the fields of an edit. A hook that knows one edit only finds the texts of all in its fields."""
    if len(edits) == 1:
        return edits[0]
    old, new = ("\n".join(str(edit[key]) for edit in edits) for key in ("old_string", "new_string"))
    return {"old_string": old, "new_string": new, "replace_all": False, "edits": edits}


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


def call_input(hook: Hook, call: ToolCallFacts, named: NamedCall, result: Mapping[str, Any]) -> Json:
    """Return the fields about a call in the form that the hook's agent documents: programs such as `jq` fail on a
    text where they expect an object.

    Args:
        hook: the hook that gets them.
        call: the call as the engine knows it.
        named: the call in the terms of the hook's agent.
        result: what is known after the call (`tool_response` or `error`, `duration_ms`); other fields before it.
    """
    facts: Json = {
        "tool_name": named.name, "tool_input": named.input, "tool_use_id": call.call_id, **result,
    }  # fmt: skip
    if call.server:
        facts["mcp_server"] = call.server
    if "error" in facts and hook.event == "PostToolUse" and hook.dialect != "cursor":
        failed = facts.pop("error")
        facts["tool_response"] = failed
    else:
        failed = None
    if isinstance(error := facts.get("error"), Mapping):
        facts["error"] = _text(error)
    response = facts.get("tool_response")
    if hook.dialect == "claude" and isinstance(response, str):
        facts["tool_response"] = _for_claude(call, named, response)
    if hook.dialect == "codex" and isinstance(response, Mapping):
        facts["tool_response"] = _text(response)
    if hook.dialect == "gemini" and response is not None:
        said = _text(response)
        broken = {"error": {"message": said}} if failed is not None else {}
        facts["tool_response"] = {"llmContent": said, "returnDisplay": said, **broken}
    return facts | _for_cursor(hook, call, named, facts) if hook.dialect == "cursor" else facts


def _for_claude(call: ToolCallFacts, named: NamedCall, text: str) -> Any:
    """Return the result of a call of Claude Code: an object, or the content of an MCP server."""
    if call.server:
        return [{"type": "text", "text": text}]
    path = named.input.get("file_path")
    match named.name:
        case "Read":
            return {"type": "text", "file": {"filePath": path, "content": text}}
        case "Edit":
            changed = {"oldString": "old_string", "newString": "new_string", "replaceAll": "replace_all"}
            given = {ours: named.input[theirs] for ours, theirs in changed.items() if theirs in named.input}
            return {"filePath": path, **given, "success": True}
        case "Write":
            return {"filePath": path, "content": named.input.get("content", ""), "success": True}
        case _:
            return {"content": text}


def _for_cursor(hook: Hook, call: ToolCallFacts, named: NamedCall, facts: Json) -> Json:
    """Return the further fields of Cursor, whose events before and after a kind of call have their own."""
    found: Json = {"cwd": call.folder}
    if "duration_ms" in facts:
        found["duration"] = facts["duration_ms"]
    if "error" in facts:
        found["error_message"] = facts["error"]
    output = _text(facts.get("tool_response", facts.get("error", "")))
    match hook.written_event.lower():
        case "beforeshellexecution":
            found["command"] = named.input.get("command", "")
        case "aftershellexecution":
            found |= {"command": named.input.get("command", ""), "output": output}
        case "beforemcpexecution":
            found |= {"tool_name": call.server_tool, "tool_input": json.dumps(named.input)}
        case "aftermcpexecution":
            found |= {"tool_name": call.server_tool, "tool_input": json.dumps(named.input)}
            found["result_json"] = json.dumps({"content": [{"type": "text", "text": output}]})
        case "beforereadfile":
            path = str(named.input.get("file_path", ""))
            found |= {"file_path": path, "content": _content(path), "attachments": []}
        case "afterfileedit":
            found |= {"file_path": named.input.get("file_path", ""), "edits": _edits(named.input)}
        case "posttooluse":
            found["tool_output"] = json.dumps(facts.get("tool_response"))
    return found


def _edits(given: Mapping[str, Any]) -> list[Json]:
    """Return the replacements of a call that edits or writes a file; none if a patch does not say them."""
    if "content" in given:
        return [{"old_string": "", "new_string": given["content"]}]
    listed = given.get("edits") or ([given] if "old_string" in given else [])
    return [{key: each.get(key, "") for key in ("old_string", "new_string")} for each in listed]


def _content(path: str) -> str:
    try:
        return read_regular(Path(path), _MOST_BYTES, follow=True).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def _text(response: Any) -> str:
    """Return a result as text: of a command, its output."""
    return str(response.get("stdout", "")) if isinstance(response, Mapping) else str(response)
