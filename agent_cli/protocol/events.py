"""Events of the engine: a closed union of frozen values, sent in order on one queue.

Every front end (REPL, one-shot, JSON, replay) reads only these. Events of a tool call carry its `call_id`. Each
submission gets exactly one event of `TERMINAL`.
"""

from typing import Literal

import msgspec

from .actions import Mode, Reach
from .agent_types import AgentState
from .hints import Hint
from .messages import AttachmentKind, FileChange, Finish, PlanItem, ResultKind, ToolStatus
from .operations import Rewound
from .stop_reason import StopReason
from .usage import CallKind, Usage


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Fields that all events share; the engine fills them in when it emits an event."""

    seq: int = 0
    """Number of the event, from 1, without gaps."""
    submission_id: str = ""
    """The prompt or command it belongs to; empty for none."""
    time: float = 0.0
    """Seconds since the epoch."""


class ErrorInfo(msgspec.Struct, frozen=True):
    """An error: what happened, what the provider said, and what to do next."""

    kind: str
    """The kind of error, for example `auth`, `rate_limit` or `network`."""
    message: str
    """One or two sentences, with the provider's own words."""
    hint: str = ""
    """What to do next, worded for the user's environment."""
    request_id: str | None = None
    """The provider's id of the failed request, for its support."""
    hints: tuple[Hint, ...] = ()
    """What to do next, as machine-readable values; `hint` has the words."""


class SessionStarted(Event, frozen=True, kw_only=True, tag="session_started"):
    """The session is open. The first event, also of resumed sessions."""

    session_id: str
    """Id for `agent --resume`."""
    model: str
    """The model in use, as `provider/name`."""
    cwd: str
    """The directory the session works in."""
    mode: Mode
    """The approval mode."""
    sandbox: str
    """The sandbox level in force, for example `none`."""
    version: str
    """Version of the program."""
    resumed: bool = False
    """Whether the session existed before."""


class TurnStarted(Event, frozen=True, kw_only=True, tag="turn_started"):
    """A turn begins."""

    turn_id: str
    """Id of the turn; undo takes it."""
    text: str
    """The user's prompt; empty when the turn continues an earlier one."""


class StepStarted(Event, frozen=True, kw_only=True, tag="step_started"):
    """A model call begins. Its retries begin no new step, see `retry_scheduled`."""

    step: int
    """Number of the call within the turn, from 1."""
    model: str
    """The model that is called."""
    kind: CallKind = "main"
    """`summary` for a compaction, `limit` for the closing answer at a limit."""


class TextDelta(Event, frozen=True, kw_only=True, tag="text_delta"):
    """A piece of the answer has arrived."""

    text: str
    """The piece; pieces are joined without a separator."""


class ReasoningDelta(Event, frozen=True, kw_only=True, tag="reasoning_delta"):
    """A piece of the model's reasoning has arrived."""

    text: str
    """The piece; pieces are joined without a separator."""


class RetryScheduled(Event, frozen=True, kw_only=True, tag="retry_scheduled"):
    """A model call failed and will be retried after `delay_s`. Discard the text of this step so far: the next
    attempt sends it again from the start."""

    attempt: int
    """Number of the next attempt, 2 for the first retry."""
    delay_s: float
    """Seconds until the next attempt."""
    error: ErrorInfo
    """Why the call failed."""
    discarded_chars: int = 0
    """Characters of text already sent for this step, to be discarded."""
    parked: bool = False
    """True if the retry waits for a rate limit that resets much later; the session continues automatically."""


class StreamSilent(Event, frozen=True, kw_only=True, tag="stream_silent"):
    """The model's server has sent nothing for a while; the call is still running."""

    silent_s: float
    """Seconds so far; 0 once data arrives again."""


class FellBack(Event, frozen=True, kw_only=True, tag="fell_back"):
    """The model failed; another one from `fallback_models` answers the rest of this prompt."""

    model: str
    """The fallback."""
    error: ErrorInfo
    """Why the model before it failed."""
    discarded_chars: int = 0
    """Characters of text already sent for this step, to be discarded."""


class AnswerCompleted(Event, frozen=True, kw_only=True, tag="answer_completed"):
    """A model call has ended and its answer is saved."""

    message_id: str
    """Id of the answer in the session."""
    text: str
    """The whole answer."""
    finish: Finish
    """Why the model stopped."""
    calls: int
    """How many tool calls the answer asks for."""
    usage: Usage | None
    """Tokens of the call; null when unknown."""
    cost_usd: float | None
    """Cost of the call in US dollars; null when unknown."""
    duration_s: float
    """Seconds from the request to the end of the answer."""
    first_token_s: float | None = None
    """Seconds from the request to the first piece of the answer."""


class ToolCallRequested(Event, frozen=True, kw_only=True, tag="tool_call_requested"):
    """The model has asked for a tool call."""

    call_id: str
    """Id of the call; every event of this call carries it."""
    tool: str
    """Name of the tool."""
    title: str
    """One line: the path, pattern or command."""
    arguments: str
    """The arguments as the model wrote them: JSON, if it is valid."""
    label: str = ""
    """Display name of the tool: `Edit`, or `$` for a command; empty when it is `tool`."""


class ToolCallStarted(Event, frozen=True, kw_only=True, tag="tool_call_started"):
    """A tool call begins to run."""

    call_id: str
    tool: str
    title: str
    result_kind: ResultKind = "text"
    """Part of the result worth showing, as declared by the tool."""
    label: str = ""
    """As in `tool_call_requested`."""


class ToolOutput(Event, frozen=True, kw_only=True, tag="tool_output"):
    """A running tool call has written output."""

    call_id: str
    text: str
    """The piece; pieces are joined without a separator."""


class ToolSilent(Event, frozen=True, kw_only=True, tag="tool_silent"):
    """A running tool call has written nothing for a while."""

    call_id: str
    silent_s: float
    """Seconds so far."""


class ToolCallFinished(Event, frozen=True, kw_only=True, tag="tool_call_finished"):
    """A tool call has ended and its result is saved. Every requested call gets exactly one."""

    call_id: str
    tool: str
    title: str
    status: ToolStatus
    """How the call ended: `denied` by a rule or the user, `unknown` after a crash."""
    text: str
    """The result, as the model sees it."""
    display: str = ""
    """The result, as the user sees it; empty when it is `text`."""
    duration_s: float = 0.0
    """Seconds the call ran, without the time it waited for the user."""
    changes: tuple[FileChange, ...] = ()
    """Files the call changed."""
    command: str = ""
    """The command line that ran; empty for none."""
    exit_code: int | None = None
    """Exit code of the command; null for none."""
    rule: str = ""
    """The rule that denied the call; empty for none."""
    adjusted: str = ""
    """How the user changed the call before allowing it: `edited`, `1 of 2 hunks`; empty when unchanged."""
    result_kind: ResultKind = "text"
    """As in `tool_call_started`."""
    label: str = ""
    """As in `tool_call_requested`."""
    counted: str = ""
    """Noun for counting calls of this tool when several are shown as one: `file`; empty when they are not
    grouped."""


class ApprovalItem(msgspec.Struct, frozen=True):
    """One tool call that needs approval."""

    call_id: str
    tool: str
    title: str
    preview: str
    """The exact command, or the whole unified diff."""
    preview_kind: Literal["command", "diff", "text"]
    """What `preview` is."""
    reason: str
    """Why it needs approval."""
    rule: str
    """The rule or mode that asks."""
    grant: str
    """The rule that answering `always` saves, or several, separated by semicolons; empty if none may be."""
    arguments: str
    """The arguments of the call, as JSON."""
    editable: str
    """The argument that may be edited before it runs, such as `command`; empty for none."""
    risk: str = ""
    """The worst possible effect, in one line."""
    reach: Reach = "inside"
    """Where a command runs: in the sandbox, in the sandbox with network access, or outside it."""
    hunks: int = 0
    """How many hunks of the diff can be accepted one by one; 0 when they cannot."""
    label: str = ""
    """As in `tool_call_requested`."""
    folder: str = ""
    """Where a command starts, relative to the workspace, `.` for its root; empty when unknown."""
    is_edit: bool = False
    """True if mode `auto-edit` would allow the call: it only changes files of the workspace."""
    rewrite: str = ""
    """Unified diff of the arguments if a hook changed the call or asked to; empty otherwise."""
    output: str = ""
    """The last lines of the output of a command that the sandbox blocked; empty otherwise."""


class ApprovalRequested(Event, frozen=True, kw_only=True, tag="approval_requested"):
    """Tool calls wait for approval."""

    request_id: str
    """Id to answer with."""
    items: tuple[ApprovalItem, ...]
    """The calls, in order."""
    agent_name: str = ""
    """The sub-agent that made the calls; empty for the session's own model."""
    agent_task: str = ""
    """The task of that sub-agent."""


class ApprovalResolved(Event, frozen=True, kw_only=True, tag="approval_resolved"):
    """A request for approval is closed."""

    request_id: str
    outcome: Literal["answered", "abandoned", "cancelled"]
    """Outcome of the request. Only older versions wrote `abandoned`."""


class QuestionAsked(Event, frozen=True, kw_only=True, tag="question_asked"):
    """The model or the engine asks the user a question and waits for the answer."""

    request_id: str
    """Id to answer with."""
    question: str
    options: tuple[str, ...] = ()
    """Answers to choose from; empty for free text."""
    server: str = ""
    """The MCP server that asks; empty for none."""
    agent_name: str = ""
    """The sub-agent that asks; empty for none."""
    agent_task: str = ""
    """The task of that sub-agent."""

    @property
    def refusal(self) -> str:
        """The option that refuses, which is the last one; empty if there is none."""
        return self.options[-1] if self.options and self.options[-1] in ("Stop", "Decline") else ""


class QuestionResolved(Event, frozen=True, kw_only=True, tag="question_resolved"):
    """A question is closed."""

    request_id: str
    outcome: Literal["answered", "cancelled"]
    """Outcome of the question: `cancelled` when the turn ended first."""


class PlanUpdated(Event, frozen=True, kw_only=True, tag="plan_updated"):
    """The model has updated its plan."""

    items: tuple[PlanItem, ...]
    """The whole plan, in order."""


class Steered(Event, frozen=True, kw_only=True, tag="steered"):
    """A message typed during the turn has reached the model."""

    text: str
    """The message."""


class InputReturned(Event, frozen=True, kw_only=True, tag="input_returned"):
    """Input that was queued, or could not be saved, has been returned to the user. It did not run and will not
    run."""

    texts: tuple[str, ...] = ()
    """Prompts and messages, oldest first, as they were typed."""
    commands: tuple[str, ...] = ()
    """Slash commands, oldest first."""


class HookRan(Event, frozen=True, kw_only=True, tag="hook_ran"):
    """A user hook ran."""

    hook: str
    event: str
    """For example `PreToolUse`."""
    duration_s: float
    decision: str = ""
    """`allow`, `ask` or `deny`; empty for none."""
    failure: str = ""
    """Why the hook failed; empty when it did not."""
    rewrite: str = ""
    """Unified diff of the change it requested in a call's arguments."""


class Notice(Event, frozen=True, kw_only=True, tag="notice"):
    """Information for the user; the turn continues."""

    level: Literal["info", "warning"]
    text: str
    """One or two sentences."""


class Compacted(Event, frozen=True, kw_only=True, tag="compacted"):
    """The conversation was compacted, or a compaction was undone."""

    before: int
    """Estimated tokens of the next request, before."""
    after: int
    """Estimated tokens of the next request, after."""
    how: Literal["summary", "shortened", "left_out", "edited", "preview", "undone"]
    """What was done. `preview`: nothing has changed yet."""
    summary: str = ""
    """The text of the summary."""


class Attached(Event, frozen=True, kw_only=True, tag="attached"):
    """A prompt has an attachment, such as an `@` mention. Emitted before the model is called."""

    name: str
    """Path or address as typed; `!` and the command for the output of a command that the user ran."""
    kind: AttachmentKind
    tokens: int
    """Estimated size in tokens."""
    note: str = ""
    """What was left out, or why it could not be attached."""


class Renamed(Event, frozen=True, kw_only=True, tag="renamed"):
    """The session was renamed."""

    title: str
    """The new name."""


class Conflict(msgspec.Struct, frozen=True):
    """A file that undo or redo did not change."""

    path: str
    """Relative to the session's directory if inside it."""
    reason: str
    """Why the file was not changed."""
    decidable: bool = True
    """True if the user can still choose a version of the file."""


class RestoreReport(msgspec.Struct, frozen=True):
    """What an undo or redo did to the files."""

    restored: tuple[FileChange, ...] = ()
    """Files restored."""
    conflicts: tuple[Conflict, ...] = ()
    """Files not changed."""
    notes: tuple[str, ...] = ()
    """What could not be restored."""


class Restored(Event, frozen=True, kw_only=True, tag="restored"):
    """An undo, redo or rewind was carried out."""

    kind: Literal["undo", "redo", "rewind", "resolve"]
    """`resolve`: a decision on files that an undo did not change."""
    turns: int
    """Number of turns covered."""
    prompt: str
    """The prompt of the first of these turns."""
    report: RestoreReport
    """What happened to the files."""
    what: Rewound = "both"
    """What was restored: the conversation, the code, or both."""


class SettingsChanged(Event, frozen=True, kw_only=True, tag="settings_changed"):
    """The model, the mode or the reasoning effort was changed."""

    model: str
    """The model in use, as `provider/name`."""
    mode: Mode
    """The approval mode."""
    effort: str
    """The reasoning effort; empty for the model's default."""


class TurnCompleted(Event, frozen=True, kw_only=True, tag="turn_completed"):
    """The turn has ended normally: the task is done, or a limit was reached."""

    stop_reason: StopReason
    """Why it ended."""
    text: str
    """The final answer."""
    steps: int
    """Number of model calls."""
    duration_s: float
    """Seconds from the prompt to the end."""
    changes: tuple[FileChange, ...] = ()
    """Files that the turn changed, with any tool or command."""
    unmet_rules: tuple[str, ...] = ()
    """Rules that required a tool call before the end and were not followed."""


class TurnAborted(Event, frozen=True, kw_only=True, tag="turn_aborted"):
    """The user stopped the turn. What had arrived by then is saved."""

    stop_reason: StopReason
    """Why it ended."""
    text: str = ""
    """The answer so far."""
    changes: tuple[FileChange, ...] = ()
    """Files that the turn changed, with any tool or command."""


class TurnFailed(Event, frozen=True, kw_only=True, tag="turn_failed"):
    """The turn failed. What had happened by then is saved."""

    stop_reason: StopReason
    """Why it ended."""
    error: ErrorInfo
    """What went wrong."""
    changes: tuple[FileChange, ...] = ()
    """Files that the turn changed, with any tool or command."""


class OperationCompleted(Event, frozen=True, kw_only=True, tag="operation_completed"):
    """A command was carried out."""

    operation: str
    """Name of the operation, for example `Compact`."""
    detail: str = ""
    """Result of the operation, in one sentence."""


class OperationFailed(Event, frozen=True, kw_only=True, tag="operation_failed"):
    """A command was not carried out."""

    operation: str
    """Name of the operation, for example `Compact`."""
    error: ErrorInfo
    """Why it was not carried out."""


class SessionClosed(Event, frozen=True, kw_only=True, tag="session_closed"):
    """The session is closed. This is the last event."""

    session_id: str
    error: ErrorInfo | None = None
    """Set when the engine itself failed."""


class AgentChanged(Event, frozen=True, kw_only=True, tag="agent_changed"):
    """A sub-agent began, finished a step, or ended."""

    agent_id: str
    """Id of its session."""
    agent_name: str
    """Name of the sub-agent, such as `explore-2`."""
    agent_type: str
    """Type of the sub-agent."""
    state: AgentState
    """Current state; exactly one at a time."""
    task: str
    """The task."""
    background: bool = False
    """True if the turn continues without waiting for it."""
    steps: int = 0
    """Model calls so far."""
    cost_usd: float | None = None
    """Cost of these calls; null while unknown."""
    line: str = ""
    """Current activity, or the beginning of its answer."""
    call_id: str = ""
    """The tool call that started it."""
    parent_id: str = ""
    """Id of the sub-agent that started this one; empty if the session itself did."""


class AgentEvent(Event, frozen=True, kw_only=True, tag="agent_event"):
    """An event of a sub-agent's own session."""

    agent_id: str
    """Id of its session."""
    agent_name: str
    """Name of the sub-agent."""
    event: "AnyEvent"
    """The event, as emitted in that session."""


AnyEvent = (
    SessionStarted | TurnStarted | StepStarted | TextDelta | ReasoningDelta | RetryScheduled
    | StreamSilent | FellBack | AnswerCompleted
    | ToolCallRequested | ToolCallStarted | ToolOutput | ToolSilent | ToolCallFinished | ApprovalRequested
    | ApprovalResolved | QuestionAsked | QuestionResolved | PlanUpdated | Steered | InputReturned | Notice
    | HookRan | Compacted | Attached | Renamed | Restored | SettingsChanged | TurnCompleted | TurnAborted
    | TurnFailed | AgentChanged | AgentEvent | OperationCompleted | OperationFailed | SessionClosed
)  # fmt: skip

TERMINAL = (TurnCompleted, TurnAborted, TurnFailed, OperationCompleted, OperationFailed)
