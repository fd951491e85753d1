"""The input of a hook about a tool call, in the form that its agent documents. Hooks read these fields with
programs such as `jq`, which fail on a text where they expect an object.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_cli.fs.files import read_regular

from .call_names import NamedCall, ToolCallFacts
from .definition import Hook

Json = dict[str, Any]
_MOST_BYTES = 1_000_000
"""Maximum size of a file whose content a hook gets; of a longer one, it gets the beginning."""


def call_input(hook: Hook, call: ToolCallFacts, named: NamedCall, result: Mapping[str, Any]) -> Json:
    """Return the fields about a call.

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
