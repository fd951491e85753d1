"""What each operation does: the objects of one session, and a handler for every kind of task."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from agent_cli.model.transport.retry import RetryPolicy
from agent_cli.model.types.base import ModelError, ModelRequest
from agent_cli.protocol.events import (
    Notice,
    SessionStarted,
    SettingsChanged,
    TurnCompleted,
    TurnStarted,
)
from agent_cli.protocol.messages import FileChange, Message, new_id
from agent_cli.protocol.operations import ChangeSettings, ControlJob, Reshape, Submission, UserInput
from agent_cli.protocol.records import SettingsSet, TurnEnded
from agent_cli.protocol.stop_reason import StopReason
from agent_cli.session import history
from agent_cli.session.event_bus import EventBus
from agent_cli.session.input_queue import Inbox
from agent_cli.session.session import Session
from agent_cli.store.session_file import StoreError
from agent_cli.tools.kit.base import ToolContext
from agent_cli.tools.registry import Registry

from .context.compaction import Briefed, Compactor, ContextFull
from .context.reminders import Reminders
from .context.token_meter import OfferedTools, TokenMeter
from .job_records import JobNotes, control
from .model_calls.attempt import close_cut_off
from .model_calls.budget import BudgetLimits, DayLedger, OverBudget
from .model_calls.caller import ModelCaller
from .model_calls.limits import Limits, Settings
from .model_calls.model_selection import Models
from .outcomes import stop_reason_of
from .permissions.active_policy import Permissions
from .snapshot import SnapshotBuilder
from .tool_calls.approval_requests import ApprovalRequests
from .tool_calls.call_rules import BoundRule, TurnRules
from .tool_calls.loop_detector import LoopDetector
from .tool_calls.runner import ToolRunner
from .tool_calls.user_questions import UserQuestions
from .turn import Steers, Stop, Turn
from .turn_end import Outcomes
from .undo.turn_undo import TurnUndo

if TYPE_CHECKING:
    from .context.history_search import EarlierSessions, SessionHistory
    from .context.mentions import Attachments


class Dispatcher:
    """One session's objects, wired together."""

    def __init__(
        self,
        session: Session,
        models: Models,
        registry: Registry,
        permissions: Permissions,
        approvals: ApprovalRequests,
        checkpointing: TurnUndo,
        context: ToolContext,
        bus: EventBus,
        settings: Settings,
        *,
        moment: Briefed,
        retry: RetryPolicy,
        masked: Callable[[Sequence[Message]], Sequence[Message]] = tuple,
        day: DayLedger | None = None,
        rules: Sequence[BoundRule] = (),
        earlier: "Callable[[], EarlierSessions] | None" = None,
    ) -> None:
        self.session = session
        self.bus = bus
        self.approvals = approvals
        self.checkpointing = checkpointing
        self.endings = Outcomes(bus, lambda: models.model.info.name)
        self._models = models
        self._registry = registry
        self._permissions = permissions
        self._context = context
        self._settings = settings
        self._rules = rules
        self._moment = moment
        self._masked = masked
        self._offered = OfferedTools(session, registry)
        self._meter = TokenMeter(session, lambda: models.model.info, lambda: self._offered.specs)
        self._spending = BudgetLimits(session, settings.bounds, day, self._meter.tokens)
        self._caller = ModelCaller(session, bus, models, retry, self._spending)
        self._compactor = Compactor(
            session, self._meter, self._caller, self._request, bus.emit,
            compact_at=settings.compact_at, jobs=context.jobs.states, briefed=moment,
        )  # fmt: skip
        self.inbox = Inbox(session)
        self._job_notes = JobNotes(context.jobs)
        self._reminders = Reminders(session, context.jobs, finish_plan=settings.finish_plan)
        self._turn: Turn | None = None
        self._leftover = Steers()
        self._settling: asyncio.Task[tuple[FileChange, ...]] | None = None
        self.overview = SnapshotBuilder(
            session,
            models,
            self._meter,
            self._spending,
            self._compactor,
            self.inbox,
            context.jobs,
            cwd=str(context.workspace.root),
            sandbox=permissions.level,
            session_path=settings.session_path,
        )
        self._earlier = earlier
        self._serve_tools()

    def _serve_tools(self) -> None:
        """Let tools ask the person, and the session."""
        context = self._context
        context.ask = self._question if self.approvals.interactive else None
        context.recall = lambda identifier: self._looking_back().recall(identifier)
        context.search_history = lambda query: self._looking_back().search(query)
        context.max_tokens = self._meter.result_tokens

    def announce(self) -> None:
        """The first event of the stream."""
        model, mode, _ = self.session.view.settings
        self.bus.emit(
            SessionStarted(
                session_id=self.session.header.session_id,
                model=model,
                cwd=str(self._context.workspace.root),
                mode=mode,
                sandbox=self._permissions.level(),
                version=self._settings.version,
                resumed=self._settings.resumed,
            )
        )
        try:
            if crashed := close_cut_off(self.session):
                self._warn(crashed, "")
        except StoreError as error:
            self._warn(str(error), "")

    async def handle(self, submission: Submission) -> None:
        """Carry out one task of the turn queue."""
        match submission.operation:
            case UserInput() as user_input:
                await self._take_turn(submission, user_input)
            case operation if isinstance(operation, Reshape):
                from .undo.history_operations import HistoryOperations

                doing = HistoryOperations(
                    self.session, self.checkpointing, self._compactor, self._context, self.bus.emit
                )
                await doing.carry_out(operation, submission.id)
            case _:
                raise TypeError(f"{type(submission.operation).__name__} is not a task")

    async def _take_turn(self, submission: Submission, user_input: UserInput) -> None:
        self.endings.stop_reason = "interrupted"
        self._models.back_to_first()
        self._spending.begin_input()
        turn = self._turn = self._new_turn(submission.id)
        self.bus.emit(TurnStarted(turn_id=turn.turn_id, text=user_input.text, submission_id=submission.id))
        stop: Stop | None = None
        failure: Exception | None = None
        try:
            await self.checkpointing.close_crashed_turns()
            stop = await turn.run(user_input)
        except asyncio.CancelledError:
            pass  # told below: what a stopped turn left behind is saved first
        except Exception as error:  # the turn's end is told here, whatever failed
            failure = error
        reason = stop.reason if stop else stop_reason_of(failure) if failure else self.endings.stop_reason
        patience = None if stop or failure else _ABORT_PATIENCE_S
        changes = await self._end_turn(turn, reason, failure=failure, within_s=patience)
        if failure is not None:
            self.endings.failed(submission, failure, changes)
        elif stop is None:
            self._leave_steers(submission.id)
            self.endings.aborted(submission, changes, self.session.partial_text(turn.turn_id))
        else:
            self.bus.emit(
                TurnCompleted(
                    stop_reason=stop.reason,
                    text=stop.text,
                    steps=turn.steps,
                    duration_s=round(turn.elapsed_s, 3),
                    changes=changes,
                    unmet_rules=stop.unmet_rules,
                    submission_id=submission.id,
                )
            )

    def _leave_steers(self, submission_id: str) -> None:
        """Guidance for a turn that was stopped from outside is offered again when the session is resumed."""
        for text in self.take_leftover_steers():
            self._warn(f"Not delivered, because the turn was stopped: {text}", submission_id)

    def _new_turn(self, submission_id: str) -> Turn:
        from .recovery import Recovery

        turn_id, guard = new_id("turn"), LoopDetector()
        tools = ToolRunner(
            self.session, self._registry, self._permissions, self.approvals, self.checkpointing, self._context,
            guard, TurnRules(self._rules, str(self._context.workspace.root)), self.bus.emit,
            turn_id=turn_id, submission_id=submission_id,
        )  # fmt: skip
        recovery = Recovery(
            self.session, self._compactor, self._meter, self._offered,
            partial(self._warn, submission_id=submission_id), turn_id=turn_id, submission_id=submission_id,
        )  # fmt: skip
        return Turn(
            self.session,
            self._caller,
            tools,
            self._compactor,
            guard,
            Limits(self._settings.bounds),
            self._request,
            self.bus.emit,
            turn_id=turn_id,
            submission_id=submission_id,
            moment=lambda: self._moment(self.session.visible()),
            attach=self._attach,
            inbox=self.inbox,
            recovery=recovery,
            spending=self._spending,
            person=UserQuestions(self.approvals, self.bus.emit, submission_id),
            reminders=self._reminders,
        )

    async def _end_turn(
        self, turn: Turn, reason: StopReason, *, failure: Exception | None, within_s: float | None
    ) -> tuple[FileChange, ...]:
        """Save how a turn ended and the state it left behind. What takes longer than `within_s` is finished
        by `settle`, before the next task."""
        self._turn = None
        self._leftover = Steers(turn.steers)
        ended = TurnEnded(
            id=new_id("end"),
            turn_id=turn.turn_id,
            stop_reason=reason,
            steps=turn.steps,
            duration_s=round(turn.elapsed_s, 3),
            error=str(failure) if failure else "",
        )
        try:
            self.session.append(ended)
        except Exception as unsaved:  # the turn's own end must still be told
            self._warn(str(unsaved), turn.submission_id)
        self._settling = asyncio.create_task(self._after_turn(turn.turn_id))
        try:
            await asyncio.wait({self._settling}, timeout=within_s)
        except asyncio.CancelledError:
            return ()  # the turn is over: a stop now only means not to wait for its checkpoint
        return self._settling.result() if self._settling.done() else ()

    def is_full(self) -> bool:
        """Whether room should be made while nobody waits."""
        return self.approvals.interactive and self._compactor.is_due(_EARLY)

    async def between_turns(self) -> None:
        """Make room before the next prompt needs it. A stop ends it like any task."""
        try:
            await self._compactor.reduce_if_needed(turn_id="", submission_id="", share=_EARLY)
        except (ModelError, OverBudget, ContextFull, StoreError):
            pass  # the next turn meets the same, and tells it

    async def _after_turn(self, turn_id: str) -> tuple[FileChange, ...]:
        self._note_jobs()
        for words in self._context.jobs.take_changes():
            self._warn(words, "")
        try:
            return await self.checkpointing.after_turn(turn_id)
        except Exception as failure:  # told; the turn itself is over
            self._warn(str(failure), "")
            return ()

    async def settle(self) -> None:
        """Between tasks: wait for the last turn's checkpoint, close models no longer used."""
        if self._settling is not None:
            await asyncio.wait({self._settling})
            self._settling = None
        await self._models.close_retired()

    def take_leftover_steers(self) -> list[str]:
        """Guidance that came too late for its turn; it becomes input of its own."""
        self._leftover, texts = Steers(), self._leftover
        return texts

    @property
    def steers(self) -> Steers:
        """Guidance that has not reached the model yet."""
        return self._leftover if self._turn is None else self._turn.steers

    def steer(self, text: str) -> bool:
        """Leave guidance for the running turn; False when none runs.

        Raises:
            StoreError: it could not be saved.
        """
        if self._turn is None:
            return False
        self.inbox.queue(text)
        self._turn.steers.append(text)
        return True

    async def change_settings(self, change: ChangeSettings, submission_id: str) -> None:
        """Use another model, mode or effort from the next call on.

        Raises:
            Exception: the model cannot be used; nothing is changed.
        """
        model, mode, effort = self.session.view.settings
        if change.model is not None and change.model != model:
            await self._models.switch(change.model)
            model = self._models.model.info.name
            self._compactor.forget_failure()
            if outgrown := self._compactor.outgrown():
                self._warn(outgrown, submission_id)
        mode = change.mode or mode
        if change.effort is not None:
            effort = change.effort
            self._models.chosen.forget_effort()
        try:
            self.session.append(SettingsSet(id=new_id("set"), model=model, mode=mode, effort=effort))
        except StoreError:
            await self._models.switch(self.session.view.settings[0], check=False)
            raise
        self._permissions.mode = mode
        self._models.effort = effort
        self.bus.emit(SettingsChanged(model=model, mode=mode, effort=effort, submission_id=submission_id))

    async def control_job(self, change: ControlJob) -> str:
        """As `job_notes.control`."""
        return await control(self._context.jobs, change)

    async def aclose(self) -> None:
        """Kill what still runs, close connections, let go of the file."""
        with contextlib.suppress(Exception):
            await self.settle()
        self._note_jobs(leaving=True)
        await self.checkpointing.aclose()
        ended = self._context.jobs.last_words()
        await self._context.processes.aclose()
        for words in (*ended, *self._context.jobs.take_changes()):
            self.bus.emit(Notice(level="info", text=words))
        self._context.shell.close()
        self._permissions.close()
        await self._models.aclose()
        self.session.close()

    def _note_jobs(self, *, leaving: bool = False) -> None:
        with contextlib.suppress(StoreError):  # a note; what it is about is told to the user in any case
            if notes := self._job_notes.take(leaving=leaving):
                self.session.append(*notes)

    def _request(self, messages: Sequence[Message]) -> ModelRequest:
        return ModelRequest(
            system=self.session.header.system,
            messages=history.repair(self._masked(messages)),
            tools=self._offered.specs,
            effort=self._models.effort,
            session_id=self.session.header.session_id,
        )

    def _looking_back(self) -> "SessionHistory":
        from .context.history_search import SessionHistory

        return SessionHistory(self.session, self._context.spill_dir, self._earlier() if self._earlier else None)

    async def _attach(self, text: str) -> "Attachments":
        """What a prompt names, read as far as the policy lets it; files shown whole count as known."""
        from .context.mentions import attach

        brought = await attach(text, self._context, self._permissions.authorize, self._settings.private_hosts)
        self._context.seen.update(brought.seen)
        return brought

    async def _question(self, text: str, options: tuple[str, ...]) -> str:
        return await self.approvals.question(text, options, self._turn.submission_id if self._turn else "")

    def _warn(self, text: str, submission_id: str) -> None:
        self.bus.emit(Notice(level="warning", text=text, submission_id=submission_id))


_EARLY = 0.9
"""Between turns the conversation is reduced from this share of the threshold on."""
_ABORT_PATIENCE_S = 0.15
"""How long the end of a stopped turn waits for its checkpoint before the prompt comes back."""
