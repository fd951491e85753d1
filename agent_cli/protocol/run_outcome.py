"""Outcome of a run of one or more prompts, collected from its events."""

from collections.abc import Callable
from typing import Any

import msgspec

from . import events as ev
from .hints import Hint
from .messages import FileChange, sum_changes
from .operations import UserInput
from .stop_reason import StopReason, exit_code
from .usage import NON_CONVERSATION_KINDS, Totals, UsageTotals

NOTHING_SENT = UsageTotals(0, 0, 0, 0, 0, 0)
"""The tokens of a run without a request."""


class ChangedFile(msgspec.Struct, frozen=True):
    """A file the run changed, with its line counts."""

    path: str
    kind: str
    added: int
    removed: int


class CommandRun(msgspec.Struct, frozen=True):
    """A command that the run executed."""

    command: str
    exit_code: int | None
    duration_s: float


class Denied(msgspec.Struct, frozen=True):
    """A denied action; `rule` names what decided."""

    tool: str
    reason: str
    rule: str


class RunOutcome:
    """Outcome of a run so far.

    Attributes:
        text: the last answer.
        stop_reason: why the last turn ended.
        completed: True if the last turn ended by itself.
        error: the first error that ended a turn.
        turns: number of model calls.
        unmet_rules: rules about required actions that were not met.
        structured: the answer as data; see `needs_correction`.
        unfit: why the answer is not the requested data; empty when it is.
    """

    def __init__(self, before: Totals, session_id: str = "") -> None:
        """`before` holds the session's totals at the start of the run."""
        self.session_id = session_id
        self.text = ""
        self.stop_reason: StopReason = "internal_error"
        self.completed = False
        self.error: ev.ErrorInfo | None = None
        self.turns = 0
        self._has_called = False
        self.unmet_rules: tuple[str, ...] = ()
        self.structured: Any = None
        self.unfit = ""
        self._before = before
        self._changes: dict[str, FileChange] = {}
        self._commands: list[CommandRun] = []
        self._denied: list[Denied] = []

    @property
    def changed_files(self) -> tuple[ChangedFile, ...]:
        """Changed files, each listed once."""
        return tuple(
            ChangedFile(each.path, each.kind, each.added, each.removed) for each in self._changes.values()
        )

    @property
    def commands(self) -> tuple[CommandRun, ...]:
        """Commands that ran, in order."""
        return tuple(self._commands)

    @property
    def denied(self) -> tuple[Denied, ...]:
        """Denied calls, in order."""
        return tuple(self._denied)

    def note(self, event: ev.AnyEvent, submission_id: str) -> None:
        """Process an event. The end of a turn counts only if it belongs to the submission."""
        match event:
            case ev.SessionStarted():
                self.session_id = event.session_id
            case ev.StepStarted():
                self._has_called = True
                self.turns += event.kind not in NON_CONVERSATION_KINDS
            case ev.AnswerCompleted():
                self.text = event.text or self.text
            case (ev.ToolCallFinished() as call) | ev.AgentEvent(event=ev.ToolCallFinished() as call):
                if call.command:
                    self._commands.append(CommandRun(call.command, call.exit_code, call.duration_s))
                if call.status == "denied":
                    self._denied.append(Denied(call.tool, call.text, call.rule))
            case ev.TurnCompleted() | ev.TurnAborted() | ev.TurnFailed() if event.submission_id == submission_id:
                self._ended(event)
            case ev.SessionClosed() if event.error:
                self.failed("internal_error", event.error)

    def needs_correction(self, structure: Callable[[str], object]) -> bool:
        """Parse the answer with `structure`, which raises ValueError if it does not fit, and store it in
        `structured`. Return True if a complete answer does not fit."""
        self.unfit = ""
        try:
            self.structured = structure(self.text)
        except ValueError as problem:
            self.unfit = str(problem) or "it cannot be read"
        return self.unfit != "" and self.stop_reason == "end_turn"

    def correction(self, schema: dict[str, Any] | None) -> UserInput:
        """Return the prompt that asks for an answer that fits the schema. Tool calls are excluded, because more
        servers enforce a schema when only an answer is possible."""
        return UserInput(_AGAIN.format(self.unfit), answer_schema=schema, answer_only=True)

    def misfit(self, *, is_second: bool = True) -> ev.ErrorInfo:
        """Return the error for an answer that does not fit the schema."""
        text = (_UNFIT if is_second else _UNFIT_AT_ONCE).format(self.unfit)
        return ev.ErrorInfo("schema", text, hints=(Hint("unfit_answer"),))

    def failed(self, reason: StopReason, error: ev.ErrorInfo) -> None:
        """Record the error that ended the run. Only the first error is kept."""
        self.stop_reason = reason
        self.error = self.error or error

    def exit_code(self, stopped: StopReason | None = None, *, verified: bool | None = None) -> int:
        """Return the exit code of the run; `stopped` is the reason for an external stop."""
        fits = False if self.unfit else verified
        return exit_code(stopped or self.stop_reason, denied=bool(self._denied), verified=fits)

    def spent(self, now: Totals) -> Totals:
        """Return the usage of the run, given the session's current totals."""
        return now.since(self._before)

    def cost_usd(self, now: Totals) -> float | None:
        """Return the cost of the run as far as prices are known; 0 if no model was called."""
        spent = self.spent(now)
        return known_cost(spent) if self._has_called or spent.requests else 0.0

    def usage(self, now: Totals) -> UsageTotals:
        """Return the token totals of the run; 0 if no model was called."""
        spent = self.spent(now)
        return usage_of(spent) if self._has_called or spent.requests else NOTHING_SENT

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
            self._changes[change.path] = sum_changes(self._changes.get(change.path), change)


_AGAIN = (
    "Your answer does not fit the JSON Schema: {}. Give the whole answer once more as one JSON value that fits "
    "it, and nothing else."
)
_UNFIT = "The answer does not fit the schema, nor did the one before it: {}"
_UNFIT_AT_ONCE = "The answer does not fit the schema: {}"


def usage_of(spent: Totals) -> UsageTotals:
    """Return the token totals of a run."""
    return UsageTotals(*(getattr(spent, name) for name in UsageTotals.__struct_fields__))


def known_cost(spent: Totals) -> float | None:
    """Return the cost of a run as far as prices are known; None if none is known."""
    return spent.cost_usd if spent.cost_usd or not spent.unpriced else None
