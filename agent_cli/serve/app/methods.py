"""The methods of the app server as values: their params and results.

In addition, each operation is a method by its name, with its fields and `session_id` as params and `Submitted` as
result.
"""

from typing import Annotated, Any

import msgspec

from agent_cli.protocol.actions import Mode
from agent_cli.protocol.client import ContextPicture, RewindPoint, Snapshot
from agent_cli.protocol.events import AnyEvent

from ..sessions.host import SavedSession

PROTOCOL_VERSION = 1
Count = Annotated[int, msgspec.Meta(ge=0)]
EVENT = "event"
"""The method of notifications with events."""


class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The params of a method."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a method."""


class ClientInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Identification of a client."""

    name: str = ""
    version: str = ""


class Initialize(Params, frozen=True):
    """Agree on the version of the protocol. The first request of a client."""

    protocol_version: int
    """1."""
    client: ClientInfo = ClientInfo()
    """Name and version of the client."""


class Initialized(Result, frozen=True):
    """The server and its capabilities."""

    protocol_version: int
    name: str
    version: str
    """Version of the program."""
    cwd: str
    """Default folder for sessions."""
    methods: tuple[str, ...]
    """All methods that can be called."""
    events: tuple[str, ...]
    """All types of events that can be sent."""


class SessionOpen(Params, frozen=True):
    """Open a new session, resume a saved one, or join an open one. From then on this client receives its
    events."""

    session_id: str = ""
    """The session to resume or join: its id, a prefix of the id, or its name; empty for a new session."""
    fork: bool = False
    """Continue in a copy of the session."""
    cwd: str = ""
    """Absolute path of the working directory; empty for that of the saved session, or of the server."""
    model: str | None = None
    """`provider/name`; null for the model of the saved session, or of the configuration."""
    mode: Mode | None = None
    """The approval mode; null as for `model`."""
    effort: str | None = None
    """The reasoning effort; null as for `model`."""
    folders: tuple[str, ...] = ()
    """Absolute paths of additional folders of the workspace."""
    mcp_servers: dict[str, dict[str, Any]] = {}
    """Additional MCP servers by name, in the format of the configuration."""
    save: bool = True
    """Save the session. A saved session opened with false continues in an unsaved copy."""
    after: Count | None = None
    """For an open session, send the events after this number; null for those after `seq` of the result."""


class SessionOpened(Result, frozen=True):
    """An open session."""

    session_id: str
    started: bool
    """True if its engine was started now: events are numbered from 1 then, and all of them are sent, regardless of
    `after`. A session that was already open keeps its settings."""
    seq: int
    """Number of its last event so far."""
    notes: tuple[str, ...]
    """Notes about the session, such as untrusted settings of its project."""
    snapshot: Snapshot
    """Its state."""
    pending: tuple[AnyEvent, ...]
    """The `approval_requested` and `question_asked` events that wait for an answer."""


class SessionParams(Params, frozen=True):
    """The params that name an open session."""

    session_id: str
    """Id of an open session."""


class SessionLeave(SessionParams, frozen=True):
    """Stop receiving events of a session. It stays open, and its work continues."""


class SessionClose(SessionParams, frozen=True):
    """Stop the work of a session, save it and close it, for all clients. Answered when that is done."""


class SessionDelete(Params, frozen=True):
    """Delete a saved session that is not open."""

    session_id: str
    """Its id, a prefix of the id, or its name."""


class SessionList(Params, frozen=True):
    """List sessions, newest first."""

    cwd: str = ""
    """Only sessions of this folder; empty for all."""


class Sessions(Result, frozen=True):
    """Saved and open sessions."""

    sessions: tuple[SavedSession, ...]
    """Saved sessions, newest first."""
    open: tuple[str, ...]
    """Ids of the sessions open here, saved or not, oldest first."""


class SessionSnapshot(SessionParams, frozen=True):
    """Return the state of a session."""


class SnapshotTaken(Result, frozen=True):
    """The state of a session."""

    seq: int
    """Number of the last event included in the state."""
    snapshot: Snapshot
    pending: tuple[AnyEvent, ...]
    """The `approval_requested` and `question_asked` events that wait for an answer."""


class SessionContext(SessionParams, frozen=True):
    """Return the contents of a session's context window."""


class SessionHistory(SessionParams, frozen=True):
    """Return earlier turns of a session as the events they emitted, including turns from before it was opened."""

    skip: Count = 0
    """Number of newest turns to skip."""
    turns: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 20
    """Maximum number of turns to return."""


class History(Result, frozen=True):
    """Turns of a session."""

    turns: tuple[tuple[AnyEvent, ...], ...]
    """Oldest first."""
    has_more: bool
    """True if there are older turns."""


class SessionRewindPoints(SessionParams, frozen=True):
    """Return the prompts before which `rewind` can go back."""


class RewindPoints(Result, frozen=True):
    """Prompts, oldest first."""

    points: tuple[RewindPoint, ...]


class SessionDiff(SessionParams, frozen=True):
    """Return the changes that a session has made in its folder."""


class Diff(Result, frozen=True):
    """File changes."""

    diff: str
    """Unified diff against the state before the session's first change."""


class EventsSince(SessionParams, frozen=True):
    """Return the events of an open session after a number, for a client that was disconnected."""

    seq: Count
    """Number of the last event that the client has."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1000
    """Maximum number of events to return."""


class Events(Result, frozen=True):
    """Events of a session."""

    events: tuple[AnyEvent, ...]
    """In order; pieces of a text may be joined."""
    last: int
    """Number of the session's last event so far; if it is greater than that of the last event here, there are
    more."""


class Shutdown(Params, frozen=True):
    """Shut the server down: stop the work of all sessions, save and close them."""


class Nothing(Result, frozen=True):
    """An empty result."""


class Submitted(Result, frozen=True):
    """An operation was submitted. Exactly one `turn_completed`, `turn_aborted`, `turn_failed`,
    `operation_completed` or `operation_failed` event has its id."""

    submission_id: str


class EventParams(msgspec.Struct, frozen=True):
    """An event of an open session."""

    session_id: str
    event: AnyEvent


class Method(msgspec.Struct, frozen=True):
    """The types of a method's params and result."""

    params: type[Params]
    result: type[msgspec.Struct]


METHODS: dict[str, Method] = {
    "initialize": Method(Initialize, Initialized),
    "session/open": Method(SessionOpen, SessionOpened),
    "session/leave": Method(SessionLeave, Nothing),
    "session/close": Method(SessionClose, Nothing),
    "session/delete": Method(SessionDelete, Nothing),
    "session/list": Method(SessionList, Sessions),
    "session/snapshot": Method(SessionSnapshot, SnapshotTaken),
    "session/context": Method(SessionContext, ContextPicture),
    "session/history": Method(SessionHistory, History),
    "session/rewind_points": Method(SessionRewindPoints, RewindPoints),
    "session/diff": Method(SessionDiff, Diff),
    "events/since": Method(EventsSince, Events),
    "shutdown": Method(Shutdown, Nothing),
}
