"""Report how submissions end: the error in words for the user, and the stop reason of the turn."""

from collections.abc import Callable

import msgspec

from agent_cli.model.transport.connection_errors import Unreachable
from agent_cli.model.transport.errors import explain
from agent_cli.model.types.base import ModelError
from agent_cli.protocol.events import ErrorInfo, OperationFailed, TurnAborted, TurnFailed
from agent_cli.protocol.hints import Hint
from agent_cli.protocol.messages import FileChange
from agent_cli.protocol.operations import ChangeSettings, Operation, Submission, UserInput
from agent_cli.protocol.stop_reason import StopReason
from agent_cli.session.event_bus import EventBus
from agent_cli.store.session_file import StoreError

from .context.compaction import ContextFull
from .model_calls.budget import OverBudget
from .undo.history_operations import OperationRefused
from .undo.turn_undo import NothingToRestore


def explain_failure(error: BaseException, model: str) -> tuple[StopReason, ErrorInfo]:
    """Return the stop reason and error description of a failure; `model` is the model it happened with."""
    if isinstance(error, ModelError):
        return stop_reason_of(error), explain(error, model)
    if isinstance(error, ContextFull):
        return "context_limit", ErrorInfo(kind="context_full", message=str(error), hints=(Hint("make_room"),))
    if isinstance(error, StoreError | NothingToRestore | OperationRefused | OverBudget):
        is_disk = isinstance(error, StoreError) and isinstance(error.__cause__, OSError)
        hints = error.hints if isinstance(error, NothingToRestore) else ()
        return "internal_error", ErrorInfo("not_done", str(error), hints=(Hint("disk"),) if is_disk else hints)
    return "internal_error", ErrorInfo(
        kind="internal_error",
        message=f"{type(error).__name__}: {error}",
        hints=(Hint("own_fault"),),
    )


def with_next_step(error: BaseException, info: ErrorInfo) -> ErrorInfo:
    """Return the error of a failed prompt with an additional hint on how to continue after fixing the cause."""
    if not isinstance(error, ModelError) or error.kind == "content_filter":
        return info
    is_setting = error.kind == "auth" or (isinstance(error, Unreachable) and error.lasting)
    return msgspec.structs.replace(info, hints=(*info.hints, Hint("restart" if is_setting else "retry")))


def stop_reason_of(error: BaseException) -> StopReason:
    """Return the stop reason of a turn that failed with an error."""
    if isinstance(error, ContextFull):
        return "context_limit"
    return _BY_KIND.get(error.kind, "provider_error") if isinstance(error, ModelError) else "internal_error"


_BY_KIND: dict[str, StopReason] = {
    "auth": "auth_error",
    "permission": "auth_error",
    "not_found": "bad_model",
    "context_overflow": "context_limit",
    "too_large": "context_limit",
    "content_filter": "content_filter",
    "unsupported": "bad_model",
}


class Outcomes:
    """Emits the ends of one session's submissions."""

    def __init__(self, bus: EventBus, model: Callable[[], str]) -> None:
        """`model` returns the name of the model in use."""
        self._bus = bus
        self._model = model
        self.stop_reason: StopReason = "interrupted"
        """Reason for the next interruption."""

    def aborted(self, submission: Submission, changes: tuple[FileChange, ...] = (), text: str = "") -> None:
        """Emit the end of a task that was stopped."""
        if isinstance(submission.operation, UserInput):
            self._bus.emit(
                TurnAborted(stop_reason=self.stop_reason, text=text, changes=changes, submission_id=submission.id)
            )
            return
        self.operation_failed(submission.id, submission.operation, ErrorInfo("interrupted", "stopped by the user"))

    def failed(self, submission: Submission, error: BaseException, changes: tuple[FileChange, ...] = ()) -> None:
        """Emit the end of a task that failed, with what to do next."""
        wanted = submission.operation.model if isinstance(submission.operation, ChangeSettings) else None
        reason, info = explain_failure(error, wanted or self._model())
        if isinstance(submission.operation, UserInput):
            self._bus.emit(
                TurnFailed(
                    stop_reason=reason,
                    error=with_next_step(error, info),
                    changes=changes,
                    submission_id=submission.id,
                )
            )
        else:
            self.operation_failed(submission.id, submission.operation, info)

    def operation_failed(self, submission_id: str, operation: Operation, error: ErrorInfo) -> None:
        """Emit the end of an operation other than a prompt that was not carried out."""
        name = type(operation).__name__
        self._bus.emit(OperationFailed(operation=name, error=error, submission_id=submission_id))
