"""The contents of a saved session, as the events of its turns."""

from functools import partial
from pathlib import Path

from agent_cli.engine.tool_calls.pending_call import earlier_event
from agent_cli.protocol.client import AgentTranscript
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
    turns = replay(read_session(path).records, lambda records: records, partial(earlier_event, registry))
    return AgentTranscript(map(EventBus(redactor=redactor).replayed, turns), totals(path)[0])
