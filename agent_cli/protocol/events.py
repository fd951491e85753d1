"""What the engine tells the world: a closed union of frozen values, in order, on one queue.

Every front end (REPL, one-shot, JSON, replay) is a consumer of these and of nothing else. `seq` counts
from 1 without gaps; `submission_id` says which submission an event belongs to (empty: none). Tool events
are keyed by `call_id`, never by "the last tool". Each submission gets exactly one event of `TERMINAL`.
"""

from typing import Literal

import msgspec

from .actions import Mode, Reach
from .messages import FileChange, Finish, PlanItem, ToolStatus
from .operations import Rewound
from .stop_reason import StopReason
from .usage import CallKind, Usage


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """The fields all events share; the engine fills them in when it emits."""

    seq: int = 0
    submission_id: str = ""
    time: float = 0.0
    """Seconds since the epoch."""


class ErrorInfo(msgspec.Struct, frozen=True):
    """A failure told to the user: what happened, what the provider said, what to do next."""

    kind: str
    message: str
    """One sentence or two, the provider's own words included."""
    hint: str = ""
    """The next step."""
    request_id: str | None = None
    """The provider's id of the failed request, for its support."""


class SessionStarted(Event, frozen=True, kw_only=True, tag="session_started"):
    """First event of every session, resumed ones included."""

    session_id: str
    model: str
    cwd: str
    mode: Mode
    sandbox: str
    """The level really in force, for example `none`."""
    version: str
    resumed: bool = False


class TurnStarted(Event, frozen=True, kw_only=True, tag="turn_started"):
    """A turn begins with one input."""

    turn_id: str
    text: str
    """The user's prompt; empty when the turn carries on without one."""


class StepStarted(Event, frozen=True, kw_only=True, tag="step_started"):
    """A model call begins. A retry of the same step starts a new attempt, see `RetryScheduled`."""

    step: int
    model: str
    kind: CallKind = "main"


class TextDelta(Event, frozen=True, kw_only=True, tag="text_delta"):
    """A piece of the answer, as it arrives."""

    text: str


class ReasoningDelta(Event, frozen=True, kw_only=True, tag="reasoning_delta"):
    """A piece of the model's reasoning, as it arrives."""

    text: str


class RetryScheduled(Event, frozen=True, kw_only=True, tag="retry_scheduled"):
    """A model call failed and will be tried again after `delay_s`. The text of this step that was already
    sent is void: the next attempt starts it afresh."""

    attempt: int
    """The attempt to come, 2 for the first retry."""
    delay_s: float
    error: ErrorInfo
    discarded_chars: int = 0
    parked: bool = False
    """The wait is for a far-off reset of a limit: the session rests and goes on by itself."""


class StreamSilent(Event, frozen=True, kw_only=True, tag="stream_silent"):
    """Nothing has come from the model's server for a while; the call still runs."""

    silent_s: float
    """Seconds so far; 0 when data has come again."""


class FellBack(Event, frozen=True, kw_only=True, tag="fell_back"):
    """The model failed, and another one from `fallback_models` takes over for the rest of this input."""

    model: str
    """The one that takes over."""
    error: ErrorInfo
    """Why the one before it is given up."""
    discarded_chars: int = 0
    """Characters of text already sent for this step, which are void."""


class AnswerCompleted(Event, frozen=True, kw_only=True, tag="answer_completed"):
    """One model call is over and its answer is saved. `usage` and `cost_usd` are null where unknown."""

    message_id: str
    text: str
    finish: Finish
    calls: int
    usage: Usage | None
    cost_usd: float | None
    duration_s: float
    first_token_s: float | None = None


class ToolCallRequested(Event, frozen=True, kw_only=True, tag="tool_call_requested"):
    """The model asked for a call. `title` is one line: path, pattern or command."""

    call_id: str
    tool: str
    title: str
    arguments: str


class ToolCallStarted(Event, frozen=True, kw_only=True, tag="tool_call_started"):
    """A call begins to run."""

    call_id: str
    tool: str
    title: str


class ToolOutput(Event, frozen=True, kw_only=True, tag="tool_output"):
    """Live output of a running call, in pieces."""

    call_id: str
    text: str


class ToolSilent(Event, frozen=True, kw_only=True, tag="tool_silent"):
    """A running call has shown nothing for a while."""

    call_id: str
    silent_s: float
    """Seconds so far."""


class ToolCallFinished(Event, frozen=True, kw_only=True, tag="tool_call_finished"):
    """The one end of a call: its result is saved."""

    call_id: str
    tool: str
    title: str
    status: ToolStatus
    text: str
    """What the model reads."""
    display: str = ""
    duration_s: float = 0.0
    changes: tuple[FileChange, ...] = ()
    command: str = ""
    exit_code: int | None = None
    rule: str = ""


class ApprovalItem(msgspec.Struct, frozen=True):
    """One call that needs a person."""

    call_id: str
    tool: str
    title: str
    preview: str
    """The exact command, or the full unified diff."""
    preview_kind: Literal["command", "diff", "text"]
    reason: str
    rule: str
    grant: str
    """The rule that `always` would save; empty when it may not be saved."""
    arguments: str
    editable: str
    """The string argument a person may edit before running, such as `command`; empty when none."""
    risk: str = ""
    """What it could do at worst, in one line."""
    reach: Reach = "inside"
    """What a command gets of the machine: the sandbox, the sandbox with the network, or everything."""
    hunks: int = 0
    """How many hunks the diff has, where each may be made without the others; 0 where they may not."""


class ApprovalRequested(Event, frozen=True, kw_only=True, tag="approval_requested"):
    """Calls that wait for an `ApprovalAnswer` with this `request_id`."""

    request_id: str
    items: tuple[ApprovalItem, ...]


class ApprovalResolved(Event, frozen=True, kw_only=True, tag="approval_resolved"):
    """The request is no longer open: answered, or cancelled. Older engines also said `abandoned`."""

    request_id: str
    outcome: Literal["answered", "abandoned", "cancelled"]


class QuestionAsked(Event, frozen=True, kw_only=True, tag="question_asked"):
    """The model asks the user something; waits for a `QuestionAnswer`."""

    request_id: str
    question: str
    options: tuple[str, ...] = ()


class PlanUpdated(Event, frozen=True, kw_only=True, tag="plan_updated"):
    """The model wrote its plan anew."""

    items: tuple[PlanItem, ...]


class Steered(Event, frozen=True, kw_only=True, tag="steered"):
    """Guidance typed during the turn was delivered to the model."""

    text: str


class InputReturned(Event, frozen=True, kw_only=True, tag="input_returned"):
    """What waited was taken back, by a stop or one by one: it has not begun and will not."""

    texts: tuple[str, ...] = ()
    """Prompts and guidance, oldest first, as they were typed."""
    commands: tuple[str, ...] = ()
    """Slash commands, oldest first."""


class Notice(Event, frozen=True, kw_only=True, tag="notice"):
    """Something the user should know that is no error of the turn."""

    level: Literal["info", "warning"]
    text: str


class Compacted(Event, frozen=True, kw_only=True, tag="compacted"):
    """The conversation was reduced, or a reduction taken back. Counts are the next request's estimated tokens."""

    before: int
    after: int
    how: Literal["summary", "shortened", "left_out", "edited", "preview", "undone"]
    """`preview`: this is what would happen; nothing has changed yet."""
    summary: str = ""


class Attached(Event, frozen=True, kw_only=True, tag="attached"):
    """What a prompt brings along, counted before anything is sent."""

    name: str
    kind: Literal["file", "folder", "url", "image"]
    tokens: int
    """Estimated."""
    note: str = ""
    """What was left out, or why it could not be attached."""


class Renamed(Event, frozen=True, kw_only=True, tag="renamed"):
    """The session has another name."""

    title: str


class Conflict(msgspec.Struct, frozen=True):
    """A file that undo or redo left alone, and why."""

    path: str
    reason: str
    decidable: bool = True
    """Whether a `Resolve` can decide on it."""


class RestoreReport(msgspec.Struct, frozen=True):
    """What an undo or redo did to the workspace."""

    restored: tuple[FileChange, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    notes: tuple[str, ...] = ()
    """What it could not cover."""


class Restored(Event, frozen=True, kw_only=True, tag="restored"):
    """An undo or redo was carried out."""

    kind: Literal["undo", "redo", "rewind", "resolve"]
    turns: int
    prompt: str
    """The prompt of the first turn concerned."""
    report: RestoreReport
    what: Rewound = "both"


class SettingsChanged(Event, frozen=True, kw_only=True, tag="settings_changed"):
    """Model, mode or effort are different from now on."""

    model: str
    mode: Mode
    effort: str


class TurnCompleted(Event, frozen=True, kw_only=True, tag="turn_completed"):
    """The turn came to an end of its own; `stop_reason` tells which."""

    stop_reason: StopReason
    text: str
    steps: int
    duration_s: float
    changes: tuple[FileChange, ...] = ()
    """Every file the turn changed, by whatever tool."""
    unmet_rules: tuple[str, ...] = ()
    """Rules about what must be done before the end, where it was not done."""


class TurnAborted(Event, frozen=True, kw_only=True, tag="turn_aborted"):
    """The user stopped the turn. What had arrived is kept."""

    stop_reason: StopReason
    text: str = ""
    changes: tuple[FileChange, ...] = ()


class TurnFailed(Event, frozen=True, kw_only=True, tag="turn_failed"):
    """The turn could not go on; what had happened by then is kept."""

    stop_reason: StopReason
    error: ErrorInfo
    changes: tuple[FileChange, ...] = ()


class OperationCompleted(Event, frozen=True, kw_only=True, tag="operation_completed"):
    """A submission other than a prompt was carried out."""

    operation: str
    detail: str = ""


class OperationFailed(Event, frozen=True, kw_only=True, tag="operation_failed"):
    """A submission other than a prompt was not carried out, and why."""

    operation: str
    error: ErrorInfo


class SessionClosed(Event, frozen=True, kw_only=True, tag="session_closed"):
    """Last event: nothing follows. `error` is set when the engine died."""

    session_id: str
    error: ErrorInfo | None = None


AnyEvent = (
    SessionStarted | TurnStarted | StepStarted | TextDelta | ReasoningDelta | RetryScheduled
    | StreamSilent | FellBack | AnswerCompleted
    | ToolCallRequested | ToolCallStarted | ToolOutput | ToolSilent | ToolCallFinished | ApprovalRequested
    | ApprovalResolved | QuestionAsked | PlanUpdated | Steered | InputReturned | Notice
    | Compacted | Attached | Renamed | Restored | SettingsChanged | TurnCompleted | TurnAborted | TurnFailed
    | OperationCompleted | OperationFailed | SessionClosed
)  # fmt: skip

TERMINAL = (TurnCompleted, TurnAborted, TurnFailed, OperationCompleted, OperationFailed)
