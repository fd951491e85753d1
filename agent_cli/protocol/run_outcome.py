"""What came of a run of one or more prompts, gathered from its events."""

from collections.abc import Callable
from typing import Any

import msgspec

from . import events as ev
from .hints import Hint
from .messages import FileChange
from .operations import UserInput
from .stop_reason import StopReason, exit_code
from .usage import BESIDE, Totals


class UsageTotals(msgspec.Struct, frozen=True):
    """Token sums of the run; null where no provider reported them."""

    input: int | None
    output: int | None
    cache_read: int | None
    cache_write: int | None
    reasoning: int | None
    requests: int


class ChangedFile(msgspec.Struct, frozen=True):
    """A file the run changed, with its line counts."""

    path: str
    kind: str
    added: int
    removed: int


class CommandRun(msgspec.Struct, frozen=True):
    """A command the run carried out."""

    command: str
    exit_code: int | None
    duration_s: float


class Denied(msgspec.Struct, frozen=True):
    """An action that was not allowed; `rule` names what decided."""

    tool: str
    reason: str
    rule: str


class RunOutcome:
    """What has been seen of a run so far.

    Attributes:
        text: the last answer.
        stop_reason: why the last turn ended.
        completed: whether that was an end of its own.
        error: the first error that ended a turn.
        turns: model calls.
        unmet_rules: rules about what must be done before the end, where it was not done.
        structured: the answer as data; see `needs_correction`.
        unfit: why the answer is not the data that was asked for; empty when it is.
    """

    def __init__(self, before: Totals, session_id: str = "") -> None:
        """`before` are the session's totals at the start of the run."""
        self.session_id = session_id
        self.text = ""
        self.stop_reason: StopReason = "internal_error"
        self.completed = False
        self.error: ev.ErrorInfo | None = None
        self.turns = 0
        self.unmet_rules: tuple[str, ...] = ()
        self.structured: Any = None
        self.unfit = ""
        self._before = before
        self._changes: dict[str, FileChange] = {}
        self._commands: list[CommandRun] = []
        self._denied: list[Denied] = []

    @property
    def changed_files(self) -> tuple[ChangedFile, ...]:
        """The files that changed, each once."""
        return tuple(
            ChangedFile(each.path, each.kind, each.added, each.removed) for each in self._changes.values()
        )

    @property
    def commands(self) -> tuple[CommandRun, ...]:
        """The commands that were run, in order."""
        return tuple(self._commands)

    @property
    def denied(self) -> tuple[Denied, ...]:
        """The calls that were denied, in order."""
        return tuple(self._denied)

    def note(self, event: ev.AnyEvent, submission_id: str) -> None:
        """Take in an event; an end counts if it is that of the submission."""
        match event:
            case ev.SessionStarted():
                self.session_id = event.session_id
            case ev.StepStarted() if event.kind not in BESIDE:
                self.turns += 1
            case ev.AnswerCompleted():
                self.text = event.text or self.text
            case ev.ToolCallFinished() | ev.AgentEvent(event=ev.ToolCallFinished()):
                self._record(event.event if isinstance(event, ev.AgentEvent) else event)
            case ev.TurnCompleted() | ev.TurnAborted() | ev.TurnFailed() if event.submission_id == submission_id:
                self._ended(event)
            case ev.SessionClosed() if event.error:
                self.failed("internal_error", event.error)
            case _:
                pass

    def needs_correction(self, structure: Callable[[str], object]) -> bool:
        """Read the answer as data, which is then in `structured`; `structure` raises ValueError where it does not
        fit. Return whether a whole answer does not."""
        self.unfit = ""
        try:
            self.structured = structure(self.text)
        except ValueError as problem:
            self.unfit = str(problem) or "it cannot be read"
        return self.unfit != "" and self.stop_reason == "end_turn"

    def correction(self, schema: dict[str, Any] | None) -> UserInput:
        """Return the prompt that asks for an answer that fits the schema. No tool may be called: where there is
        only an answer to write, more servers hold a model to a schema."""
        return UserInput(_AGAIN.format(self.unfit), answer_schema=schema, answer_only=True)

    def misfit(self, *, is_second: bool = True) -> ev.ErrorInfo:
        """Return the error of an answer that does not fit."""
        text = (_UNFIT if is_second else _UNFIT_AT_ONCE).format(self.unfit)
        return ev.ErrorInfo("schema", text, hints=(Hint("unfit_answer"),))

    def failed(self, reason: StopReason, error: ev.ErrorInfo) -> None:
        """The run ends with this error; the first one counts."""
        self.stop_reason = reason
        self.error = self.error or error

    def exit_code(self, stopped: StopReason | None = None, *, verified: bool | None = None) -> int:
        """Return the exit code of the run; `stopped` is why it was stopped from outside."""
        fits = False if self.unfit else verified
        return exit_code(stopped or self.stop_reason, denied=bool(self._denied), verified=fits)

    def spent(self, now: Totals) -> Totals:
        """Return what the run has used, of the session's totals now."""
        return now.since(self._before)

    def _record(self, call: ev.AnyEvent) -> None:
        """Note what a call of the run or of one of its sub-agents did."""
        assert isinstance(call, ev.ToolCallFinished)
        if call.command:
            self._commands.append(CommandRun(call.command, call.exit_code, call.duration_s))
        if call.status == "denied":
            self._denied.append(Denied(call.tool, call.text, call.rule))

    def _ended(self, event: ev.TurnCompleted | ev.TurnAborted | ev.TurnFailed) -> None:
        self.stop_reason = event.stop_reason
        self.completed = isinstance(event, ev.TurnCompleted)
        match event:
            case ev.TurnFailed():
                self.failed(event.stop_reason, event.error)
            case ev.TurnCompleted():
                self.unmet_rules = event.unmet_rules
                self.text = event.text or self.text
            case ev.TurnAborted():
                self.text = event.text or self.text
        for change in event.changes:
            self._changes[change.path] = _sum(self._changes.get(change.path), change)


_AGAIN = (
    "Your answer does not fit the JSON Schema: {}. Give the whole answer once more as one JSON value that fits "
    "it, and nothing else."
)
_UNFIT = "The answer does not fit the schema, nor did the one before it: {}"
_UNFIT_AT_ONCE = "The answer does not fit the schema: {}"


def usage_of(spent: Totals) -> UsageTotals:
    """Return the tokens of a run."""
    return UsageTotals(
        spent.input, spent.output, spent.cache_read, spent.cache_write, spent.reasoning, spent.requests
    )


def known_cost(spent: Totals) -> float | None:
    """Return what a run has cost, as far as prices are known; None when none is."""
    return spent.cost_usd if spent.cost_usd or not spent.unpriced else None


def _sum(before: FileChange | None, after: FileChange) -> FileChange:
    """Return what has happened to a file in two turns."""
    if before is None:
        return after
    kind = "created" if before.kind == "created" and after.kind == "modified" else after.kind
    return FileChange(after.path, kind, before.added + after.added, before.removed + after.removed)
