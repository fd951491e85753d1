"""Carry out operations: tasks of the turn queue, one at a time, and changes that need no turn."""

import asyncio
import contextlib
from collections.abc import Awaitable

from agent_cli.model.types.base import ModelError
from agent_cli.protocol import events as ev
from agent_cli.protocol.messages import FileChange, new_id
from agent_cli.protocol.operations import (
    ChangeSettings,
    ControlAgent,
    ControlJob,
    HistoryOperation,
    Submission,
    UserInput,
)
from agent_cli.protocol.records import Granted, JobStateChanged, SettingsSet, TurnEnded
from agent_cli.protocol.stop_reason import StopReason
from agent_cli.session.event_bus import TurnScope
from agent_cli.store.session_file import StoreError
from agent_cli.tools.kit.base import ToolError

from .context.compaction import ContextFull
from .model_calls.budget import OverBudget
from .model_calls.caller import close_cut_off
from .outcomes import Outcomes, stop_reason_of
from .services import SessionServices
from .turn import Steers, Stop, Turn
from .undo.history_operations import HistoryOperations, OperationRefused


class Dispatcher:
    """Carries out the operations of one session."""

    def __init__(self, services: SessionServices) -> None:
        self.services = services
        self.session = services.session
        self.bus = services.bus
        self.outcomes = Outcomes(services.bus, lambda: services.models.model.info.name)
        self._noted: dict[str, str] = {}
        """The recorded state of each job."""
        self._turn: Turn | None = None
        self._leftover = Steers()
        self._settling: asyncio.Task[tuple[FileChange, ...]] | None = None
        self._has_completed = False
        """True if the last turn was neither stopped nor failed."""

    def announce(self) -> None:
        """Emit the first event of the stream."""
        model, mode, _ = self.session.view.settings
        self.bus.emit(
            ev.SessionStarted(
                session_id=self.session.header.session_id,
                model=model,
                cwd=str(self.services.tools.workspace.root),
                mode=mode,
                sandbox=self.services.permissions.level(),
                version=self.services.settings.version,
                resumed=self.services.settings.resumed,
            )
        )
        try:
            if crashed := close_cut_off(self.session):
                self._warn(crashed)
        except StoreError as error:
            self._warn(str(error))

    async def handle(self, submission: Submission) -> None:
        """Carry out one task of the turn queue."""
        match submission.operation:
            case UserInput() as user_input:
                await self._take_turn(submission, user_input)
            case operation if isinstance(operation, HistoryOperation):
                await HistoryOperations(self.services).carry_out(operation, self.services.scope(submission.id))
            case _:
                raise TypeError(f"{type(submission.operation).__name__} is not a task")

    async def _take_turn(self, submission: Submission, user_input: UserInput) -> None:
        self.outcomes.stop_reason = "interrupted"
        self._has_completed = False
        self.services.models.back_to_first()
        self.services.budget.begin_input()
        if self.services.parent is None:
            self.services.prompt_calls.used = 0
        turn = self._turn = Turn(self.services, self.services.scope(submission.id, new_id("turn")))
        if self.services.agents is not None:
            self.services.agents.begin_turn(turn.scope)
        self.bus.emit(
            ev.TurnStarted(turn_id=turn.scope.turn_id, text=user_input.text, submission_id=submission.id)
        )
        stop: Stop | None = None
        failure: Exception | None = None
        try:
            await self.services.undo.close_crashed_turns()
            if self.services.agents is not None:
                await self.services.agents.take_over()
            stop = await turn.run(user_input)
        except asyncio.CancelledError:
            pass  # reported below, after what the turn left behind is saved
        except Exception as error:  # the end of the turn is reported here, whatever failed
            failure = error
        reason = stop.reason if stop else stop_reason_of(failure) if failure else self.outcomes.stop_reason
        patience = None if stop or failure else _ABORT_PATIENCE_S
        changes = await self._end_turn(turn, reason, failure=failure, within_s=patience)
        if failure is not None:
            await self._tell_hooks(failure, turn)
            self.outcomes.failed(submission, failure, changes)
        elif stop is None:
            self._leave_steers(submission.id)
            self.outcomes.aborted(submission, changes, self.session.partial_text(turn.scope.turn_id))
        else:
            self._has_completed = True
            self.bus.emit(
                ev.TurnCompleted(
                    stop_reason=stop.reason,
                    text=stop.text,
                    steps=turn.steps,
                    duration_s=round(turn.elapsed_s, 3),
                    changes=changes,
                    unmet_rules=stop.unmet_rules,
                    submission_id=submission.id,
                )
            )

    async def _tell_hooks(self, failure: Exception, turn: Turn) -> None:
        if self.services.session_hooks is not None:
            with contextlib.suppress(Exception):  # the end of the turn must be reported anyway
                await self.services.session_hooks.on_failure(str(failure), turn.scope)

    def _leave_steers(self, submission_id: str) -> None:
        """Warn about guidance for a turn that was stopped from outside. It is offered again when the session is
        resumed."""
        for text in self.take_leftover_steers():
            self._warn(f"Not delivered, because the turn was interrupted: {text}", submission_id)

    async def _end_turn(
        self, turn: Turn, reason: StopReason, *, failure: Exception | None, within_s: float | None
    ) -> tuple[FileChange, ...]:
        """Save how a turn ended and the state it left behind. Work that takes longer than `within_s` is finished
        by `settle`, before the next task."""
        self._turn = None
        if self.services.agents is not None:
            self.services.agents.end_turn()
        self._leftover = Steers(turn.steers)
        ended = TurnEnded(
            id=new_id("end"),
            turn_id=turn.scope.turn_id,
            stop_reason=reason,
            steps=turn.steps,
            duration_s=round(turn.elapsed_s, 3),
            error=str(failure) if failure else "",
        )
        saved: Awaitable[None] | None = None
        try:
            saved = self.session.save(ended)
        except Exception as unsaved:  # the end of the turn must be reported anyway
            if str(unsaved) != ended.error:  # that is reported with it
                self._warn(str(unsaved), turn.scope.submission_id)
        self._settling = asyncio.create_task(self._after_turn(turn.scope, saved))
        try:
            await asyncio.wait({self._settling}, timeout=within_s)
        except asyncio.CancelledError:
            return ()  # the turn is over: a stop now only means not to wait for its checkpoint
        return self._settling.result() if self._settling.done() else ()

    def is_full(self) -> bool:
        """Return True if the conversation should be compacted while nobody waits: not after the user has stopped
        a turn, or the model has failed."""
        may = self._has_completed and self.services.approvals.interactive
        return may and self.services.compactor.is_due(_EARLY)

    async def between_turns(self) -> None:
        """Compact before the next prompt needs the space. A stop cancels it like any task."""
        try:
            await self.services.compactor.reduce_if_needed(self.services.scope(), share=_EARLY)
        except (ModelError, OverBudget, ContextFull, StoreError):
            pass  # the next turn meets the same error and reports it

    async def _after_turn(self, scope: TurnScope, saved: Awaitable[None] | None) -> tuple[FileChange, ...]:
        """Wait until the end of the turn is on disk, and save the state that the turn left behind."""
        if saved is not None:
            try:
                await saved
            except Exception as unsaved:
                self._warn(str(unsaved), scope.submission_id)
        self._note_jobs()
        tools = self.services.tools
        async with tools.workspace.folders.read_once() if tools.jobs.any_runs() else contextlib.nullcontext():
            for words in tools.jobs.take_changes():
                self._warn(words)
        try:
            return await self.services.undo.after_turn(scope.turn_id)
        except Exception as failure:  # reported; the turn itself is over
            self._warn(str(failure))
            return ()

    async def settle(self) -> None:
        """Wait for the last turn's checkpoint and close models no longer in use. Called between tasks."""
        if self._settling is not None:
            await asyncio.wait({self._settling})
            self._settling = None
        await self.services.models.close_retired()

    def take_leftover_steers(self) -> list[str]:
        """Return guidance that came too late for its turn, for use as new prompts."""
        self._leftover, texts = Steers(), self._leftover
        return texts

    @property
    def steers(self) -> Steers:
        """Guidance that has not reached the model yet."""
        return self._leftover if self._turn is None else self._turn.steers

    def steer(self, text: str) -> bool:
        """Queue guidance for the running turn. Return False if none is running.

        Raises:
            StoreError: it could not be saved.
        """
        if self._turn is None:
            return False
        self.services.inbox.queue(text)
        self._turn.steers.append(text)
        return True

    async def change_settings(self, change: ChangeSettings, submission_id: str) -> None:
        """Switch to another model, mode or effort, from the next call on.

        Raises:
            Exception: the model cannot be used; nothing is changed.
        """
        model, mode, effort = self.session.view.settings
        if change.model is not None and change.model != model:
            await self.services.models.switch(change.model)
            model = self.services.models.model.info.name
            self.services.compactor.forget_failure()
            if outgrown := self.services.compactor.window_warning():
                self._warn(outgrown, submission_id)
        mode = change.mode or mode
        if change.effort is not None:
            effort = change.effort
            self.services.models.chosen.forget_effort()
        try:
            self.session.append(SettingsSet(id=new_id("set"), model=model, mode=mode, effort=effort))
        except StoreError:
            await self.services.models.switch(self.session.view.settings[0], check=False)
            raise
        self.services.permissions.mode = mode
        self.services.models.effort = effort
        self.bus.emit(ev.SettingsChanged(model=model, mode=mode, effort=effort, submission_id=submission_id))

    async def control_job(self, change: ControlJob) -> str:
        """Stop a background command, or let it outlive the session. Return what was done, in words.

        Raises:
            OperationRefused: there is no such job, it has ended, or it cannot be kept.
        """
        jobs = self.services.tools.jobs
        job = jobs.get(change.job)
        if job is None:
            raise OperationRefused(jobs.unknown(change.job))
        if not job.is_running:
            raise OperationRefused(f"Job {job.id} has ended: {job.state}.")
        if change.action == "stop":
            await job.stop()
            return f"Job {job.id} is stopped."
        try:
            return f"Job {job.id} keeps running after the session; its output is in {job.keep()}.{job.cut_off}"
        except OSError as error:
            raise OperationRefused(f"Job {job.id} cannot be kept: {error.strerror or error}") from error

    async def control_agent(self, change: ControlAgent) -> str:
        """Stop a sub-agent, send it a message or merge its work, and return what was done.

        Raises:
            OperationRefused: there is no sub-agent of that name, or the action is not possible.
        """
        if self.services.agents is None:
            raise OperationRefused("There are no sub-agents in this session.")
        try:
            return await self.services.agents.control(change)
        except ToolError as error:
            raise OperationRefused(str(error)) from error

    async def remove_grant(self, rule: str) -> str:
        """Remove a saved permission rule and return what was done.

        Raises:
            StoreError: a rules file cannot be read or written.
        """
        places = await asyncio.to_thread(self.services.permissions.remove_grant, rule)
        if not places:
            return f"No saved rule {rule}; /permissions lists them."
        self.session.append(Granted(id=new_id("grant"), rule=rule, removed=True))
        return f"Removed {rule} ({', '.join(places)})."

    async def aclose(self) -> None:
        """Kill all running processes, close connections and the session file."""
        if self.services.agents is not None:
            with contextlib.suppress(Exception):
                await self.services.agents.aclose()
        with contextlib.suppress(Exception):
            await self.settle()
        if self.services.session_hooks is not None:
            with contextlib.suppress(Exception):  # a failing hook must not prevent the exit
                await self.services.session_hooks.on_end("other", self.services.scope())
        if self.services.hooks is not None:
            await self.services.hooks.aclose()
        self._note_jobs(leaving=True)
        await self.services.undo.aclose()
        ended = self.services.tools.jobs.last_words()
        await self.services.tools.processes.aclose()
        for words in (*ended, *self.services.tools.jobs.take_changes()):
            self.bus.emit(ev.Notice(level="info", text=words))
        self.services.permissions.close()
        await self.services.models.aclose()
        self.session.close()

    def _note_jobs(self, *, leaving: bool = False) -> None:
        """Record each job whose state has changed. When `leaving`, running jobs that are not kept have ended."""
        notes = []
        for job in self.services.tools.jobs:
            state = ENDED_WITH_US if leaving and job.state == "running" else job.state
            if self._noted.get(job.id) != state:
                self._noted[job.id] = state
                identifier, log, pid = new_id("job"), str(job.log.path or ""), job.running.pid
                note = JobStateChanged(
                    id=identifier, job=job.id, command=job.command, state=state, log=log, pid=pid
                )
                notes.append(note)
        with contextlib.suppress(StoreError):  # only a note: the user is told about the job in any case
            if notes:
                self.session.append(*notes)

    def _warn(self, text: str, submission_id: str = "") -> None:
        self.services.scope(submission_id).notice(text)


_EARLY = 0.9
"""Between turns, the conversation is compacted from this share of the threshold on."""
_ABORT_PATIENCE_S = 0.15
"""Seconds that the end of a stopped turn waits for its checkpoint before the prompt returns."""


ENDED_WITH_US = "ended with the session"
