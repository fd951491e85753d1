"""The contents of a saved session, as the events of its turns."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from agent_cli.engine.tool_calls.pending_call import finished_event
from agent_cli.protocol.client import AgentTranscript
from agent_cli.protocol.events import ToolCallFinished
from agent_cli.protocol.messages import ToolCall, ToolResult
from agent_cli.protocol.records import AnyRecord
from agent_cli.redaction.redactor import Redactor
from agent_cli.session.event_bus import EventBus
from agent_cli.session.replay import replay
from agent_cli.store.catalog import totals
from agent_cli.store.session_file import read_session
from agent_cli.tools.registry import Registry


def agent_transcript(path: Path, registry: Registry, redactor: Redactor) -> AgentTranscript:
    """Read a session, such as that of a sub-agent, which may still be running; secrets are masked.

    Raises:
        StoreError: it cannot be read.
    """

    def shown(result: ToolResult, call: ToolCall) -> ToolCallFinished:
        return _result(registry, result, call)

    turns = replay(read_session(path).records, _as_they_are, shown)
    return AgentTranscript(map(EventBus(redactor=redactor).replayed, turns), totals(path)[0])


def _as_they_are(records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
    return records


def _result(registry: Registry, result: ToolResult, call: ToolCall) -> ToolCallFinished:
    tool, title = registry.get(call.name), ""
    with contextlib.suppress(Exception):  # for arguments of a call that never ran
        title = tool.title(registry.parse(call.name, call.arguments)[1]) if tool else ""
    return finished_event(result, title or call.name, tool)
