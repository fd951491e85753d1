"""Records of a session file, one per line. The file is append-only: undo, compaction and settings are records too.
The messages to send are computed from all records on each request."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from .actions import Mode
from .agent_types import AgentState
from .messages import AssistantMessage, Image, Record, ToolResult, UserMessage
from .operations import GrantScope, Mark, Rewound
from .stop_reason import StopReason
from .usage import CallKind, Usage

FORMAT_VERSION = 2

SyncTime = Literal["now", "with_next", "flush"]
"""When appended records reach the disk: before `append` returns, with the next append, or in the `flush` for which
the caller waits."""


class Header(Record, frozen=True, kw_only=True, omit_defaults=True, tag="session"):
    """First line of the file."""

    version: int
    session_id: str
    cwd: str
    model: str
    mode: Mode
    created_by: str
    """Program and version, such as `agent-cli 0.1.0`."""
    system: str = ""
    """The system prompt. Saved so that a resumed session sends the same bytes."""
    effort: str = ""
    forked_from: str = ""
    purpose: str = ""
    """Purpose, such as `review`; empty for a conversation. `--continue` opens only conversations."""
    parent_id: str = ""
    """Id of the session that started this one as a sub-agent; empty otherwise."""
    call_id: str = ""
    """The parent's tool call that started the sub-agent."""
    agent_name: str = ""
    """Name of the sub-agent, such as `explore-2`."""
    agent_type: str = ""
    told: dict[str, str] = msgspec.field(default_factory=dict)
    """Source of an instruction or memory in `system` → hash of its text."""


class ModelCalled(Record, frozen=True, kw_only=True, omit_defaults=True, tag="model_call"):
    """One attempt at a model call, successful or not. All totals are sums over these records."""

    kind: CallKind
    model: str
    outcome: str
    """How the answer finished, or the kind of error that ended the call."""
    usage: Usage | None = None
    cost_usd: float | None = None
    at_most_usd: float | None = None
    """Upper bound of the cost, if the cost is unknown but the prices are known."""
    duration_s: float = 0.0
    first_token_s: float | None = None
    """Seconds from the request to the first part of the answer."""
    agent: str = ""
    """Session of the sub-agent that made the call, if one did; the call is recorded in that session too."""


class RequestSent(Record, frozen=True, kw_only=True, omit_defaults=True, tag="request"):
    """Written before each request to a model. A request without a following `ModelCalled` was cut off by a crash;
    its cost is unknown."""

    kind: CallKind
    model: str


class PartialAnswer(Record, frozen=True, kw_only=True, omit_defaults=True, tag="partial_answer"):
    """Text of an answer that is still arriving, since the previous record of this type. It is superseded once the
    `ModelCalled` is written."""

    text: str
    is_anew: bool = False
    """True if the earlier pieces do not count: they were reasoning."""


class CallStarted(Record, frozen=True, kw_only=True, omit_defaults=True, tag="call_started"):
    """Written before a call that is not known to be read-only takes effect."""

    call_id: str


class TurnEnded(Record, frozen=True, kw_only=True, omit_defaults=True, tag="turn_end"):
    """The end of a turn."""

    stop_reason: StopReason
    steps: int = 0
    duration_s: float = 0.0
    error: str = ""


class AgentStateChanged(Record, frozen=True, kw_only=True, omit_defaults=True, tag="agent"):
    """In a sub-agent's session: a task began (`running`), or how it ended. The last record is the current state; a
    task still `running` when no process works on the session was stopped."""

    state: AgentState
    task: str = ""
    text: str = ""
    """The answer, or the reason why there is none."""
    background: bool = False
    untrusted: tuple[str, ...] = ()
    """Sources of untrusted text in the conversation that gave the task, which may be derived from it."""


class CheckpointTaken(Record, frozen=True, kw_only=True, omit_defaults=True, tag="checkpoint"):
    """The workspace before a turn's first side effect, or after the turn."""

    when: Literal["before", "after"]
    checkpoint: str
    late: bool = False
    """True if taken after a crash: changes made in the meantime may be somebody else's."""
    uncovered: tuple[str, ...] = ()
    """Files that the turn was about to write and the checkpoint does not contain, as real paths."""
    foreign: tuple[str, ...] = ()
    """Files that somebody else changed during the turn, as displayed. Undo leaves them alone."""
    root: str = ""
    """The directory saved, if it is not that of the session: it may be resumed in another one."""


class CompactionSaved(Record, frozen=True, kw_only=True, omit_defaults=True, tag="folded"):
    """Compaction: `summary` replaces the messages up to and including `through`."""

    through: str
    """Id of the last message replaced. Messages are referred to by id, never by position."""
    summary: str
    how: Literal["summary", "left_out", "edited"] = "summary"
    """Author of the summary: the model, the program when no model could write one, or the user."""
    kept: tuple[str, ...] = ()
    """Ids of messages up to `through` that are still sent verbatim, after the summary."""
    told: dict[str, str] = msgspec.field(default_factory=dict)
    """Instructions and memories repeated in `summary`, as in `UserMessage.told`."""
    before: int = 0
    after: int = 0


class CompactionReverted(Record, frozen=True, kw_only=True, omit_defaults=True, tag="unfolded"):
    """A compaction was reverted: the original messages are sent again."""

    fold_id: str
    """Id of the `CompactionSaved` or `Shortened`."""


class Marked(Record, frozen=True, kw_only=True, omit_defaults=True, tag="marked"):
    """The user pinned a message (no reduction changes it), dropped it (a placeholder is sent instead), or removed
    the mark."""

    message_id: str
    mark: Mark


class Shortened(Record, frozen=True, kw_only=True, omit_defaults=True, tag="shortened"):
    """Reduction without a model: only head and tail of these tool results are sent."""

    call_ids: tuple[str, ...]
    keep_chars: int
    before: int = 0
    after: int = 0


class TurnsUndone(Record, frozen=True, kw_only=True, omit_defaults=True, tag="undone"):
    """These turns no longer count; their messages and files are reverted."""

    turn_ids: tuple[str, ...]
    what: Rewound = "both"


class TurnsRedone(Record, frozen=True, kw_only=True, omit_defaults=True, tag="redone"):
    """These turns count again."""

    turn_ids: tuple[str, ...]


class SettingsSet(Record, frozen=True, kw_only=True, omit_defaults=True, tag="settings"):
    """Model, mode and effort from this record on."""

    model: str
    mode: Mode
    effort: str = ""


class Granted(Record, frozen=True, kw_only=True, omit_defaults=True, tag="granted"):
    """A permission rule that the user chose to save."""

    rule: str
    scope: GrantScope = "session"
    removed: bool = False
    """True if the rule is removed: it no longer applies."""


class HookCompleted(Record, frozen=True, kw_only=True, omit_defaults=True, tag="hook"):
    """A user hook ran."""

    hook: str
    event: str
    source: str = ""
    """File that defines the hook."""
    duration_s: float = 0.0
    exit_code: int | None = None
    decision: str = ""
    """`allow`, `ask` or `deny`; empty for none."""
    failure: str = ""
    rewrite: str = ""
    """Unified diff of the change that the hook requested in a call's arguments."""


class Quarantined(Record, frozen=True, kw_only=True, omit_defaults=True, tag="quarantined"):
    """The provider refused a message: a placeholder is sent in its place. The original stays in the file."""

    message_id: str
    reason: str
    images_only: bool = False
    """True if only its images are left out."""


class InputQueued(Record, frozen=True, kw_only=True, omit_defaults=True, tag="input_queued"):
    """A prompt queued behind the running turn."""

    text: str
    images: tuple[Image, ...] = ()


class InputDequeued(Record, frozen=True, kw_only=True, omit_defaults=True, tag="input_taken"):
    """Prompts that left the queue: their turn has begun, or the user withdrew them."""

    queued_ids: tuple[str, ...]


class JobStateChanged(Record, frozen=True, kw_only=True, omit_defaults=True, tag="job"):
    """A background command began, ended, or was left running without the agent."""

    job: str
    command: str
    state: str
    """As in `JobState`."""
    log: str = ""
    pid: int = 0


class Named(Record, frozen=True, kw_only=True, omit_defaults=True, tag="named"):
    """A session title set by the user."""

    title: str


AnyRecord = (
    Header | UserMessage | AssistantMessage | ToolResult | RequestSent | PartialAnswer | ModelCalled | CallStarted
    | TurnEnded | AgentStateChanged | CheckpointTaken | CompactionSaved | CompactionReverted | Shortened | Marked
    | HookCompleted | TurnsUndone | TurnsRedone
    | SettingsSet | Granted | Named | Quarantined | InputQueued | InputDequeued | JobStateChanged
)  # fmt: skip

REWRITES = CompactionSaved | Shortened | CompactionReverted | Marked | Quarantined | TurnsUndone | TurnsRedone
"""Records that change the meaning of earlier ones."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


def header_of(records: Sequence[AnyRecord]) -> Header:
    """Return the first record of a session."""
    header = records[0]
    assert isinstance(header, Header)
    return header


def untrusted_in(record: AnyRecord) -> tuple[str, ...]:
    """Return the sources of the untrusted text that a record brings into its session."""
    match record:
        case ToolResult() if record.untrusted:
            return (record.untrusted,)
        case UserMessage():
            return tuple(each.untrusted for each in record.attachments if each.untrusted)
        case AgentStateChanged():
            return record.untrusted
        case _:
            return ()


def encode(record: AnyRecord) -> bytes:
    """Return a record as one line of JSON, without the newline."""
    return _encoder.encode(record)


def decode(line: bytes) -> AnyRecord:
    """Return the record of one line.

    Raises:
        msgspec.DecodeError: the line is not JSON, or not a record of this version; the message has the path.
    """
    try:
        return _decoder.decode(line)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error


def storable(record: AnyRecord) -> AnyRecord:
    """Return the record with lone surrogates replaced, because neither a UTF-8 file nor a request can contain
    them."""
    try:
        _encoder.encode(record)
    except UnicodeEncodeError:
        return _decoder.decode(storable_json(record))
    return record


def storable_json(value: Any, order: Literal["sorted"] | None = None) -> bytes:
    """Return a value as JSON, with lone surrogates replaced. Names that are not valid UTF-8 contain them."""
    try:
        return msgspec.json.encode(value, order=order)
    except UnicodeEncodeError:
        return msgspec.json.encode(_replaced(msgspec.to_builtins(value)), order=order)


def storable_text(text: str) -> str:
    """Return a text with lone surrogates replaced, such as a path that is not valid UTF-8."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _replaced(value: Any) -> Any:
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, dict):
        return {_replaced(key): _replaced(item) for key, item in value.items()}
    return [_replaced(item) for item in value] if isinstance(value, list | tuple) else value
