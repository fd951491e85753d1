"""Events of calls as the engine makes them for the built-in tools: each has the result kind that its tool declares."""

from typing import Any

from agent_cli.protocol import events as ev
from agent_cli.tools.registry import built_in

_TOOLS = {tool.name: tool for tool in built_in()}


def started(tool: str, title: str, call_id: str = "c1") -> ev.ToolCallStarted:
    """A call that begins to run."""
    return ev.ToolCallStarted(call_id=call_id, tool=tool, title=title, **_declared(tool, "result_kind", "label"))


def finished(**more: Any) -> ev.ToolCallFinished:
    """The end of a call, of `shell` unless it says otherwise."""
    fields = {"call_id": "c1", "tool": "shell", "title": "ls", "status": "ok", "text": ""} | more
    return ev.ToolCallFinished(**(_declared(fields["tool"], "result_kind", "label", "counted") | fields))


def approval_item(call_id: str, tool: str, *rest: Any, **more: Any) -> ev.ApprovalItem:
    """A call that waits for approval."""
    return ev.ApprovalItem(call_id, tool, *rest, **(_declared(tool, "label") | more))


def _declared(tool: str, *names: str) -> dict[str, Any]:
    """What a built-in tool says of itself; nothing for any other."""
    return {name: getattr(_TOOLS[tool], name) for name in names} if tool in _TOOLS else {}
