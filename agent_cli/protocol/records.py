"""Everything a session file may hold, one value a line. The file is append-only: undo, compaction and
settings are records too, and what the model is sent is computed from all of them on each request."""

from typing import Any, Literal

import msgspec

from .actions import Mode
from .agent_types import AgentState
from .messages import AssistantMessage, Image, Record, ToolResult, UserMessage
from .operations import GrantScope, Mark, Rewound
from .stop_reason import StopReason
from .usage import CallKind, Usage

FORMAT_VERSION = 2


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
    """The system prompt. Stored, so that a resumed session sends the same bytes."""
    effort: str = ""
    forked_from: str = ""
    purpose: str = ""
    """What it is for, such as `review`; empty for a conversation, which alone `--continue` opens."""
    parent_id: str = ""
    """Id of the session that started this one as a sub-agent; empty for any other."""
    call_id: str = ""
    """The call of that session that started it."""
    agent_name: str = ""
    """What the sub-agent is called, such as `explore-2`."""
    agent_type: str = ""
    told: dict[str, str] = msgspec.field(default_factory=dict)
    """Source of an instruction or memory in `system` → hash of its text."""


class ModelCalled(Record, frozen=True, kw_only=True, omit_defaults=True, tag="model_call"):
    """One attempt at a model call, successful or not: the ledger that all totals are summed from."""

    kind: CallKind
    model: str
    outcome: str
    """A finish, or the kind of the error that ended it."""
    usage: Usage | None = None
    cost_usd: float | None = None
    at_most_usd: float | None = None
    """The most it can have cost, where the cost is unknown and the prices are not."""
    duration_s: float = 0.0
    first_token_s: float | None = None
    """From the request to the first piece of the answer."""
    agent: str = ""
    """Session of the sub-agent that called, where another did; its own session has the call too."""


class RequestSent(Record, frozen=True, kw_only=True, omit_defaults=True, tag="request"):
    """Written before each request to a model. One without a `ModelCalled` behind it was cut off by a crash and has
    cost an unknown sum."""

    kind: CallKind
    model: str


class PartialAnswer(Record, frozen=True, kw_only=True, omit_defaults=True, tag="partial_answer"):
    """Text of an answer that is still arriving: what has come since the last such record. It is void once the
    `ModelCalled` is there."""

    text: str


class CallStarted(Record, frozen=True, kw_only=True, omit_defaults=True, tag="call_started"):
    """Written before a call that is not known to read begins to act."""

    call_id: str


class TurnEnded(Record, frozen=True, kw_only=True, omit_defaults=True, tag="turn_end"):
    """How a turn came to its end."""

    stop_reason: StopReason
    steps: int = 0
    duration_s: float = 0.0
    error: str = ""


class AgentNoted(Record, frozen=True, kw_only=True, omit_defaults=True, tag="agent"):
    """In the session of a sub-agent: a task began (`running`), or how it ended. The last one holds; one that still
    runs when nobody works on the session was stopped."""

    state: AgentState
    task: str = ""
    text: str = ""
    """The answer, or why there is none."""
    background: bool = False


class CheckpointTaken(Record, frozen=True, kw_only=True, omit_defaults=True, tag="checkpoint"):
    """The workspace as it was before a turn's first side effect, or when the turn had ended."""

    when: Literal["before", "after"]
    checkpoint: str
    late: bool = False
    """Taken after a crash: what changed meanwhile may be somebody else's work."""
    uncovered: tuple[str, ...] = ()
    """Files the turn was about to write that the checkpoint does not hold, each by its real path."""


class CompactionSaved(Record, frozen=True, kw_only=True, omit_defaults=True, tag="folded"):
    """Compaction: messages up to and including `through` are represented by `summary`."""

    through: str
    """Id of the last message folded; messages are named by id, never by position."""
    summary: str
    how: Literal["summary", "left_out", "edited"] = "summary"
    """Who wrote it: the model, the program where no model could, or the user."""
    kept: tuple[str, ...] = ()
    """Ids of messages up to `through` that are still sent word for word, behind the summary."""
    told: dict[str, str] = msgspec.field(default_factory=dict)
    """What `summary` gives anew, as in `UserMessage.told`."""
    before: int = 0
    after: int = 0


class CompactionReverted(Record, frozen=True, kw_only=True, omit_defaults=True, tag="unfolded"):
    """A compaction was taken back: the messages are sent again as they were."""

    fold_id: str
    """Of a `CompactionSaved` or `Shortened`."""


class Marked(Record, frozen=True, kw_only=True, omit_defaults=True, tag="marked"):
    """The user pinned a message (it stays word for word whatever is reduced), dropped it (a placeholder is sent
    in its place), or took either back."""

    message_id: str
    mark: Mark


class Shortened(Record, frozen=True, kw_only=True, omit_defaults=True, tag="shortened"):
    """Reduction without a model: these tool results are sent as head and tail only."""

    call_ids: tuple[str, ...]
    keep_chars: int
    before: int = 0
    after: int = 0


class TurnsUndone(Record, frozen=True, kw_only=True, omit_defaults=True, tag="undone"):
    """These turns no longer count; their messages and files are taken back."""

    turn_ids: tuple[str, ...]
    what: Rewound = "both"


class TurnsRedone(Record, frozen=True, kw_only=True, omit_defaults=True, tag="redone"):
    """These turns count again."""

    turn_ids: tuple[str, ...]


class SettingsSet(Record, frozen=True, kw_only=True, omit_defaults=True, tag="settings"):
    """Model, mode and effort from here on."""

    model: str
    mode: Mode
    effort: str = ""


class Granted(Record, frozen=True, kw_only=True, omit_defaults=True, tag="granted"):
    """A permission rule the user chose to keep."""

    rule: str
    scope: GrantScope = "session"
    removed: bool = False
    """Whether it is removed again: it does not hold from here on."""


class HookNoted(Record, frozen=True, kw_only=True, omit_defaults=True, tag="hook"):
    """A hook of the user's was run."""

    hook: str
    event: str
    source: str = ""
    """The file that defines it."""
    duration_s: float = 0.0
    exit_code: int | None = None
    decision: str = ""
    """allow, ask or deny; empty for none."""
    failure: str = ""
    rewrite: str = ""
    """Unified diff of what it wanted changed in the arguments of a call."""


class Quarantined(Record, frozen=True, kw_only=True, omit_defaults=True, tag="quarantined"):
    """The provider refused a message: a placeholder is sent in its place. The original stays above."""

    message_id: str
    reason: str


class InputQueued(Record, frozen=True, kw_only=True, omit_defaults=True, tag="input_queued"):
    """A prompt that has to wait for the running turn."""

    text: str
    images: tuple[Image, ...] = ()


class InputTaken(Record, frozen=True, kw_only=True, omit_defaults=True, tag="input_taken"):
    """Queued prompts that wait no longer: their turn has begun, or they were taken back."""

    queued_ids: tuple[str, ...]


class JobNoted(Record, frozen=True, kw_only=True, omit_defaults=True, tag="job"):
    """A background command began, ended, or was left to go on without the agent."""

    job: str
    command: str
    state: str
    """As in `JobState`."""
    log: str = ""
    pid: int = 0


class Named(Record, frozen=True, kw_only=True, omit_defaults=True, tag="named"):
    """A title given by the user."""

    title: str


AnyRecord = (
    Header | UserMessage | AssistantMessage | ToolResult | RequestSent | PartialAnswer | ModelCalled | CallStarted
    | TurnEnded | AgentNoted | CheckpointTaken | CompactionSaved | CompactionReverted | Shortened | Marked
    | HookNoted | TurnsUndone | TurnsRedone
    | SettingsSet | Granted | Named | Quarantined | InputQueued | InputTaken | JobNoted
)  # fmt: skip

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


def encode(record: AnyRecord) -> bytes:
    """One line of JSON without its newline."""
    return _encoder.encode(record)


def decode(line: bytes) -> AnyRecord:
    """Return the record of one line.

    Raises:
        msgspec.DecodeError: not JSON, or not a record of this version; the message has the path.
    """
    try:
        return _decoder.decode(line)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error


def storable(record: AnyRecord) -> AnyRecord:
    """Return the same record, with lone surrogates replaced: no UTF-8 file and no request can hold them."""
    try:
        _encoder.encode(record)
    except UnicodeEncodeError:
        return _decoder.decode(storable_json(record))
    return record


def storable_json(value: Any, order: Literal["sorted"] | None = None) -> bytes:
    """Return a value as JSON, with lone surrogates replaced: no name that is not UTF-8 can be in it."""
    try:
        return msgspec.json.encode(value, order=order)
    except UnicodeEncodeError:
        return msgspec.json.encode(_replaced(msgspec.to_builtins(value)), order=order)


def storable_text(text: str) -> str:
    """Return a text, such as a path that is not UTF-8, with lone surrogates replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _replaced(value: Any) -> Any:
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, dict):
        return {_replaced(key): _replaced(item) for key, item in value.items()}
    return [_replaced(item) for item in value] if isinstance(value, list | tuple) else value
