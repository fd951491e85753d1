"""Events of calls as the engine makes them for the built-in tools: each has the result kind that its tool declares."""

from typing import Any

from agent_cli.protocol import events as ev
from agent_cli.protocol.messages import ResultKind
from agent_cli.tools.registry import built_in

_KINDS: dict[str, ResultKind] = {tool.name: tool.result_kind for tool in built_in()}


def started(tool: str, title: str, call_id: str = "c1") -> ev.ToolCallStarted:
    """A call that begins to run."""
    return ev.ToolCallStarted(call_id=call_id, tool=tool, title=title, result_kind=_KINDS.get(tool, "text"))


def finished(**more: Any) -> ev.ToolCallFinished:
    """The end of a call, of `shell` unless it says otherwise."""
    fields = {"call_id": "c1", "tool": "shell", "title": "ls", "status": "ok", "text": ""} | more
    return ev.ToolCallFinished(**({"result_kind": _KINDS.get(fields["tool"], "text")} | fields))
