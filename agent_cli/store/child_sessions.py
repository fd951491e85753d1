"""Read the sessions of sub-agents, which lie beside that of their parent."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from agent_cli.protocol.agent_types import ENDED, AgentState
from agent_cli.protocol.messages import AssistantMessage
from agent_cli.protocol.records import AgentNoted, Header

from .catalog import children_folder
from .session_file import StoreError, read_session


class ChildSession(msgspec.Struct, frozen=True):
    """What a saved session of a sub-agent says of it."""

    id: str
    name: str
    type: str
    call_id: str
    """The parent's call that started it."""
    path: Path
    state: AgentState
    """One of the ends: what was still at work when the program ended was stopped."""
    task: str
    text: str
    """Its answer, or what it had said last."""
    background: bool
    time: float
    """When its last task ended, or began if the program ended meanwhile."""
    cwd: str
    """Where it worked; another folder than its parent's for one in a worktree."""


def child_sessions(path: Path) -> Iterator[ChildSession]:
    """Yield those of the session in a file, in the order of their beginnings; what cannot be read is left out."""
    folder = children_folder(path)
    if not folder.is_dir():
        return
    found = []
    for file in folder.glob("*.json"):
        try:
            records = read_session(file).records
        except (StoreError, OSError):
            continue
        if records and isinstance(header := records[0], Header) and header.parent_id:
            found.append((header.time, _described(file, header, records)))
    yield from (each for _, each in sorted(found, key=lambda pair: pair[0]))


def agent_names(path: Path) -> dict[str, str]:
    """Return the names of the sub-agents of the session in a file, and of theirs, by the ids of their sessions."""
    names: dict[str, str] = {}
    for child in child_sessions(path):
        names |= {child.id: child.name, **agent_names(child.path)}
    return names


def _described(path: Path, header: Header, records: object) -> ChildSession:
    state: AgentState = "stopped"
    task = text = ""
    background, at = False, header.time
    for record in records if isinstance(records, list | tuple) else ():
        match record:
            case AgentNoted(state="running"):
                state, task, text, background = "stopped", record.task, "", record.background
                at = record.time
            case AgentNoted() if record.state in ENDED:
                state, text, at = record.state, record.text, record.time
            case AssistantMessage() if record.text:
                text = record.text
            case _:
                pass
    names = header.session_id, header.agent_name, header.agent_type, header.call_id
    return ChildSession(*names, path, state, task, text, background, at, header.cwd)
