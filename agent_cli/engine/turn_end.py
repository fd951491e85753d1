"""How a submission comes to an end that is not the usual one: stopped, or failed. Each is told in one event."""

from collections.abc import Callable

from agent_cli.protocol.events import ErrorInfo, OperationFailed, TurnAborted, TurnFailed
from agent_cli.protocol.messages import FileChange
from agent_cli.protocol.operations import ChangeSettings, Submission, UserInput
from agent_cli.protocol.stop_reason import StopReason
from agent_cli.session.event_bus import EventBus

from .outcomes import explained, with_way_on


class Outcomes:
    """Tells the ends of one session's submissions."""

    def __init__(self, bus: EventBus, model: Callable[[], str]) -> None:
        """`model` names the one in use."""
        self._bus = bus
        self._model = model
        self.stop_reason: StopReason = "interrupted"
        """Why the next interruption happens."""

    def aborted(self, submission: Submission, changes: tuple[FileChange, ...] = (), text: str = "") -> None:
        """Tell that a task was stopped."""
        if isinstance(submission.operation, UserInput):
            self._bus.emit(
                TurnAborted(stop_reason=self.stop_reason, text=text, changes=changes, submission_id=submission.id)
            )
            return
        self._not_done(submission, ErrorInfo(kind="interrupted", message="stopped by the user"))

    def failed(self, submission: Submission, error: BaseException, changes: tuple[FileChange, ...] = ()) -> None:
        """Tell that a task failed, and what to do next."""
        wanted = submission.operation.model if isinstance(submission.operation, ChangeSettings) else None
        reason, info = explained(error, wanted or self._model())
        if isinstance(submission.operation, UserInput):
            self._bus.emit(
                TurnFailed(
                    stop_reason=reason,
                    error=with_way_on(error, info),
                    changes=changes,
                    submission_id=submission.id,
                )
            )
        else:
            self._not_done(submission, info)

    def _not_done(self, submission: Submission, error: ErrorInfo) -> None:
        name = type(submission.operation).__name__
        self._bus.emit(OperationFailed(operation=name, error=error, submission_id=submission.id))
