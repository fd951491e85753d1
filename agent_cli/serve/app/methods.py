"""The methods of the app server as values: what each takes, and what it answers.

Beside these, each operation is a method by its name: its fields and `session_id` in, `Submitted` out.
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
"""The method of the notifications with events."""


class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a method takes."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a method answers."""


class ClientInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says of itself."""

    name: str = ""
    version: str = ""


class Initialize(Params, frozen=True):
    """Agree on the version of the protocol. The first request of a client."""

    protocol_version: int
    """1."""
    client: ClientInfo = ClientInfo()
    """Name and version of the client."""


class Initialized(Result, frozen=True):
    """What serves, and what it can do."""

    protocol_version: int
    name: str
    version: str
    """Version of the program."""
    cwd: str
    """The folder that sessions work in, unless they name another."""
    methods: tuple[str, ...]
    """All that can be called."""
    events: tuple[str, ...]
    """The types of events that may come."""


class SessionOpen(Params, frozen=True):
    """Open a new session, go on with a saved one, or join one that is open. Its events come to this client from
    then on."""

    session_id: str = ""
    """The session to go on with: its id, the beginning of that, or its name; empty for a new one."""
    fork: bool = False
    """Go on with a copy of the session."""
    cwd: str = ""
    """Absolute path of the folder to work in; empty for that of the saved session, or of the server."""
    model: str | None = None
    """`provider/name`; null for the one of the saved session, or of the configuration."""
    mode: Mode | None = None
    """The approval mode; null as with `model`."""
    effort: str | None = None
    """The reasoning effort; null as with `model`."""
    folders: tuple[str, ...] = ()
    """Absolute paths of further folders to work in."""
    mcp_servers: dict[str, dict[str, Any]] = {}
    """Further MCP servers by name, in the shape of the configuration."""
    save: bool = True
    """Whether the session is saved; a saved one that is opened with false goes on as a copy."""
    after: Count | None = None
    """Of a session that is open, send the events after this number; null for those after `seq` of the answer."""


class SessionOpened(Result, frozen=True):
    """An open session."""

    session_id: str
    started: bool
    """Whether its engine was started now: events are numbered from 1 then, and all of them come, whatever `after`
    says. A session that was open already had other settings, which stay."""
    seq: int
    """Number of its last event so far."""
    notes: tuple[str, ...]
    """What there is to know about it, such as what its project brings and is not trusted."""
    snapshot: Snapshot
    """Its state."""
    pending: tuple[AnyEvent, ...]
    """The `approval_requested` and `question_asked` that wait for an answer."""


class SessionParams(Params, frozen=True):
    """What names an open session."""

    session_id: str
    """Id of an open session."""


class SessionLeave(SessionParams, frozen=True):
    """Get no more events of a session. It stays open, and what runs goes on."""


class SessionClose(SessionParams, frozen=True):
    """Stop what runs in a session, save and end it, for all clients. Answered when that is done."""


class SessionDelete(Params, frozen=True):
    """Delete a saved session that is not open."""

    session_id: str
    """Its id, the beginning of that, or its name."""


class SessionList(Params, frozen=True):
    """List sessions, newest first."""

    cwd: str = ""
    """Only those of this folder."""


class Sessions(Result, frozen=True):
    """Saved sessions, and open ones."""

    sessions: tuple[SavedSession, ...]
    """On disk, newest first."""
    open: tuple[str, ...]
    """Ids of those that are open here, saved or not, the oldest first."""


class SessionSnapshot(SessionParams, frozen=True):
    """Return the state of a session."""


class SnapshotTaken(Result, frozen=True):
    """The state of a session."""

    seq: int
    """Number of the last event that is part of it."""
    snapshot: Snapshot
    pending: tuple[AnyEvent, ...]
    """The `approval_requested` and `question_asked` that wait for an answer."""


class SessionContext(SessionParams, frozen=True):
    """Return what fills the context window of a session."""


class SessionHistory(SessionParams, frozen=True):
    """Return earlier turns of a session as the events they emitted, from before it was opened too."""

    skip: Count = 0
    """Leave out this many of the newest turns."""
    turns: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 20
    """Return at most this many."""


class History(Result, frozen=True):
    """Turns of a session."""

    turns: tuple[tuple[AnyEvent, ...], ...]
    """Oldest first."""
    has_more: bool
    """Whether there are older ones."""


class SessionRewindPoints(SessionParams, frozen=True):
    """Return the prompts that `rewind` can go back to before."""


class RewindPoints(Result, frozen=True):
    """Prompts, oldest first."""

    points: tuple[RewindPoint, ...]


class SessionDiff(SessionParams, frozen=True):
    """Return what a session has changed in its folder."""


class Diff(Result, frozen=True):
    """Changes of files."""

    diff: str
    """Unified diff against the state before the session's first change."""


class EventsSince(SessionParams, frozen=True):
    """Return the events of an open session after a number, for a client that was away."""

    seq: Count
    """Number of the last event that the client has."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1000
    """Return at most this many."""


class Events(Result, frozen=True):
    """Events of a session."""

    events: tuple[AnyEvent, ...]
    """In order; pieces of one text may be joined."""
    last: int
    """Number of the session's last event so far: there are more where it is not that of the last one here."""


class Shutdown(Params, frozen=True):
    """End the server: stop what runs in all sessions, save and end them."""


class Nothing(Result, frozen=True):
    """Nothing to say."""


class Submitted(Result, frozen=True):
    """An operation was handed in. Exactly one `turn_completed`, `turn_aborted`, `turn_failed`,
    `operation_completed` or `operation_failed` has its id."""

    submission_id: str


class EventParams(msgspec.Struct, frozen=True):
    """An event of an open session."""

    session_id: str
    event: AnyEvent


class Method(msgspec.Struct, frozen=True):
    """What a method takes and answers."""

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
