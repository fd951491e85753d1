"""Read sub-agent sessions, which are stored next to their parent's."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from agent_cli.protocol.agent_types import ENDED, AgentState
from agent_cli.protocol.messages import AssistantMessage, FileChange, ToolResult
from agent_cli.protocol.records import AgentStateChanged, Header, untrusted_in

from .catalog import children_folder
from .session_file import StoreError, read_session


class ChildSession(msgspec.Struct, frozen=True):
    """Facts about a saved sub-agent session."""

    id: str
    name: str
    type: str
    call_id: str
    """Id of the parent's tool call that started it."""
    path: Path
    state: AgentState
    """A final state: a sub-agent still running when the program ended counts as stopped."""
    task: str
    text: str
    """Its answer, or its last text."""
    background: bool
    time: float
    """When its last task ended, or began if the program ended before it; seconds since the epoch."""
    cwd: str
    """Its working directory; differs from the parent's for a sub-agent in a worktree."""
    changes: tuple[FileChange, ...] = ()
    """What its tools are known to have changed."""
    seen: dict[str, str] = {}
    """File → hash of its content when one of its tools last read or wrote it."""
    untrusted: tuple[str, ...] = ()
    """Sources of the untrusted text in it."""


def child_sessions(path: Path) -> Iterator[ChildSession]:
    """Yield the sub-agent sessions of a session file, in order of their start; unreadable ones are left out."""
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
    """Return the names of all direct and nested sub-agents of a session file by session id."""
    names: dict[str, str] = {}
    for child in child_sessions(path):
        names |= {child.id: child.name, **agent_names(child.path)}
    return names


def _described(path: Path, header: Header, records: object) -> ChildSession:
    state: AgentState = "stopped"
    task = text = ""
    background, at = False, header.time
    changes, seen = dict[str, FileChange](), dict[str, str]()
    untrusted = dict[str, None]()
    for record in records if isinstance(records, list | tuple) else ():
        untrusted |= dict.fromkeys(untrusted_in(record))
        match record:
            case AgentStateChanged(state="running"):
                state, task, text, background = "stopped", record.task, "", record.background
                at = record.time
            case AgentStateChanged() if record.state in ENDED:
                state, text, at = record.state, record.text, record.time
            case AssistantMessage() if record.text:
                text = record.text
            case ToolResult():
                changes |= {change.path: change for change in record.changes}
                seen |= record.seen
    names = header.session_id, header.agent_name, header.agent_type, header.call_id
    found = tuple(changes.values()), seen, tuple(untrusted)
    return ChildSession(*names, path, state, task, text, background, at, header.cwd, *found)
