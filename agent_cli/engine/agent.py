"""The engine: a queue pair, and a submission loop that never waits for a turn.

    submit() ─▶ submissions ─▶ SUBMISSION LOOP ─┬▶ turn queue ─▶ worker ─▶ handlers
                                                └▶ approvals, interrupt, settings: at once

The worker runs one task at a time and is the only place that emits the end of a task. If it dies, every open
submission gets its terminal event and the event stream ends.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from functools import partial
from itertools import dropwhile
from typing import Any

import msgspec

from agent_cli.protocol import events as ev
from agent_cli.protocol.client import ContextPicture, RewindPoint, Snapshot, WaitingInput
from agent_cli.protocol.hints import Hint
from agent_cli.protocol.messages import new_id
from agent_cli.protocol.operations import (
    ApprovalAnswer,
    ChangeSettings,
    ControlAgent,
    ControlJob,
    HistoryOperation,
    Interrupt,
    Operation,
    QuestionAnswer,
    RemoveGrant,
    Shutdown,
    Steer,
    Submission,
    TakeBack,
    UserInput,
    as_typed,
)
from agent_cli.protocol.stop_reason import StopReason
from agent_cli.store.session_file import StoreError

from .dispatch import Dispatcher
from .services import SessionServices
from .tool_calls.pending_call import earlier_event

_SHUTDOWN_S = 5.0


class Agent:
    """The engine's side of `protocol.client.Client`. Run `run()` as a task concurrently with the front end."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._bus = dispatcher.bus
        self._submissions: asyncio.Queue[Submission] = asyncio.Queue()
        self._turns: asyncio.Queue[Submission] = asyncio.Queue()
        self._open: dict[str, Operation] = {}
        """Submissions without a terminal event so far, the running one included."""
        self._handed_in: dict[str, UserInput | Steer | HistoryOperation] = {}
        """Input submitted by the user that may still be waiting, oldest first."""
        self._active: asyncio.Task[None] | None = None
        self._running = ""
        """Id of the submission of the active task."""
        self._background_tasks: set[asyncio.Task[None]] = set()
        """Tasks that run concurrently with the submission loop."""
        self._stop_next = False
        self._between_turns = False
        """True while the follow-up work of the turn that just ended is being done."""
        self._closed = False

    @property
    def services(self) -> SessionServices:
        """The services that live as long as the session."""
        return self._dispatcher.services

    async def submit(self, operation: Operation) -> str:
        """Submit an operation and return the submission's id. After `SessionClosed` it is ignored."""
        submission = Submission(id=new_id("sub"), operation=operation)
        if self._closed:
            return submission.id
        self._open[submission.id] = operation
        if isinstance(operation, UserInput | Steer | HistoryOperation):
            self._handed_in[submission.id] = operation
        self._submissions.put_nowait(submission)
        return submission.id

    def events(self) -> AsyncIterator[ev.AnyEvent]:
        """Yield all events in order and end after `SessionClosed`. Supports one consumer only."""
        return self._bus.events()

    def snapshot(self) -> Snapshot:
        """Return the current state."""
        waiting = tuple(map(_shown, self._waiting_inputs().values()))
        between_turns = self._active is not None and self._running == ""
        compacting = between_turns or self.services.compactor.is_summarizing
        shown = tuple(each for each in waiting if each.text)
        return self.services.snapshots.snapshot(busy=self.is_busy, compacting=compacting, waiting=shown)

    def _waiting_inputs(self, before: str = "") -> dict[str, UserInput | Steer | HistoryOperation]:
        """Return input that has neither begun nor been delivered, by submission, oldest first: all of it, or what
        was submitted `before` a submission that has not ended. Of guidance with equal text, the newest counts as
        waiting."""
        later = set(dropwhile(lambda each: each != before, self._open))
        steers = Counter(self._dispatcher.steers)
        found = {}
        for submission_id, operation in reversed(list(self._handed_in.items())):
            if submission_id in self._open:
                if submission_id != self._running and submission_id not in later:
                    found[submission_id] = operation
            elif isinstance(operation, Steer) and steers[operation.text]:
                steers[operation.text] -= 1
                found[submission_id] = operation
            else:
                del self._handed_in[submission_id]
        return dict(reversed(found.items()))

    @property
    def is_busy(self) -> bool:
        """True while a submission is being carried out."""
        return self._running != "" and not self._bus.has_ended(self._running)

    def context(self) -> ContextPicture:
        """Return the current contents of the context window."""
        return self.services.snapshots.context()

    def replay(self) -> Iterator[tuple[ev.AnyEvent, ...]]:
        """Yield the turns so far, newest first, each as the events it emitted."""
        from agent_cli.session.replay import replay

        session, registry = self._dispatcher.session, self.services.registry
        return map(self._bus.replayed, replay(session.records, session.in_full, partial(earlier_event, registry)))

    def rewind_points(self) -> tuple[RewindPoint, ...]:
        """Return the prompts that count, oldest first."""
        return self.services.undo.points()

    async def diff(self) -> str:
        """Return a unified diff of the workspace against its state before the session's first change."""
        return await self.services.undo.session_diff()

    def notify_turn_ended(self, text: str) -> None:
        """Notify hooks that the front end is waiting for the next prompt and has alerted the user."""
        services = self.services
        if services.session_hooks is not None:
            services.session_hooks.notify("idle_prompt", text, services.scope())

    def stop(self, reason: StopReason) -> None:
        """Stop the running task. Called from a signal handler."""
        self._dispatcher.outcomes.stop_reason = reason
        self._cancel_active()

    async def run(self) -> None:
        """Process submissions until `Shutdown`. Never raises for a failing task; always ends the event stream."""
        error: ev.ErrorInfo | None = None
        worker = asyncio.create_task(self._work())
        loop = asyncio.create_task(self._serve())
        try:
            self._dispatcher.announce()
            done, _ = await asyncio.wait({worker, loop}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if (failure := task.exception()) is not None:
                    error = _died(failure)
        except Exception as failure:  # announcing failed: report it instead of hanging the front end
            error = _died(failure)
        finally:
            active = [self._active] if self._active is not None else []
            for task in (loop, worker, *active, *self._background_tasks):
                task.cancel()
            await asyncio.gather(loop, worker, *active, *self._background_tasks, return_exceptions=True)
            await self._end(error)

    async def _serve(self) -> None:
        """Run the submission loop."""
        while True:
            submission = await self._submissions.get()
            match submission.operation:
                case UserInput() as user_input:
                    self._queue(submission, user_input)
                case operation if isinstance(operation, HistoryOperation):
                    self._turns.put_nowait(submission)
                case Steer() as steer:
                    self._steer(submission, steer)
                case TakeBack(text=text):
                    self._take_back(submission, text)
                case Interrupt(reason=reason):
                    self._interrupt(submission, reason)
                case ApprovalAnswer() as answer:
                    self._complete(submission, self.services.approvals.answer(answer), "no longer open")
                case QuestionAnswer(request_id=request_id, text=text):
                    self._complete(submission, self.services.approvals.reply(request_id, text), "no longer open")
                case ChangeSettings() as change:
                    changed = self._dispatcher.change_settings(change, submission.id)
                    await self._complete_after(submission, changed)
                case ControlJob() as job:
                    self._run_in_background(self._complete_after(submission, self._dispatcher.control_job(job)))
                case ControlAgent() as change:
                    self._run_in_background(
                        self._complete_after(submission, self._dispatcher.control_agent(change))
                    )
                case RemoveGrant(rule=rule):
                    self._run_in_background(self._complete_after(submission, self._dispatcher.remove_grant(rule)))
                case Shutdown():
                    await self._shut_down(submission)
                    return

    async def _work(self) -> None:
        """Run the worker: one cancellable task at a time, each with exactly one terminal event."""
        while True:
            submission = await self._turns.get()
            if submission.id not in self._open:  # the user withdrew it
                continue
            self._running = submission.id
            self._active = asyncio.create_task(self._dispatcher.handle(submission))
            if self._stop_next:
                self._cancel_active()
            self._stop_next = False
            try:
                await asyncio.wait({self._active})
                self._finish(submission, self._active)
                self._open.pop(submission.id, None)
            finally:
                self._active.cancel()
                self._active = None
                self._running = ""
            self._between_turns = True
            await self._dispatcher.settle()
            await self._make_room()
            self._between_turns = False
            for text in self._dispatcher.take_leftover_steers():
                self._queue_leftover(text)

    async def _make_room(self) -> None:
        """Compact between turns when nothing is queued. Input submitted meanwhile waits for it; a stop cancels
        it."""
        if not self._turns.empty() or not self._dispatcher.is_full():
            return
        self._active = asyncio.create_task(self._dispatcher.between_turns())
        try:
            await asyncio.wait({self._active})
        finally:
            self._active.cancel()
            self._active = None

    def _finish(self, submission: Submission, task: "asyncio.Task[None]") -> None:
        """Ensure that a task that ended has a terminal event. The bus drops a second one."""
        if task.cancelled():
            self._dispatcher.outcomes.aborted(submission)
        elif (error := task.exception()) is not None:
            self._dispatcher.outcomes.failed(submission, error)
        elif not isinstance(submission.operation, UserInput):
            self._bus.emit(_completed(submission))

    def _cancel_active(self, before: str = "") -> bool:
        """Stop the running task, or the one about to run. A task just created takes its first step before it is
        cancelled, so that its input is saved."""
        runs = self._active is not None and not self._active.done()
        if self._active is not None and runs:
            asyncio.get_running_loop().call_soon(self._active.cancel)
        if not runs or self._running == "":
            self._stop_next = any(not isinstance(each, Steer) for each in self._waiting_inputs(before).values())
        return runs or self._stop_next

    def _queue(self, submission: Submission, user_input: UserInput) -> None:
        """Queue a prompt. A prompt that must wait is saved first; if that fails, it is returned with an error."""
        if user_input.text.strip() and (self._active is not None or not self._turns.empty()):
            try:
                self.services.inbox.queue(user_input.text, user_input.images)
            except StoreError as error:
                self._reject(submission, user_input.text, error)
                return
        self._turns.put_nowait(submission)

    def _queue_leftover(self, text: str) -> None:
        """Queue guidance that came too late for its turn as a prompt. Guidance is saved when it is submitted: if
        it was saved again, it would be offered as unsent when the session is resumed, although it was sent."""
        prompt = UserInput(text)
        submission = Submission(new_id("sub"), prompt)
        self._open[submission.id] = self._handed_in[submission.id] = prompt
        if self.services.inbox.holds(text):
            self._turns.put_nowait(submission)
        else:
            self._queue(submission, prompt)

    def _steer(self, submission: Submission, steer: Steer) -> None:
        try:
            taken = self._dispatcher.steer(steer.text)
        except StoreError as error:
            self._reject(submission, steer.text, error)
            return
        if taken:
            self._complete(submission, True, "")
            return
        self._open[submission.id] = self._handed_in[submission.id] = prompt = UserInput(steer.text)
        self._queue(Submission(submission.id, prompt), prompt)

    def _reject(self, submission: Submission, text: str, error: StoreError) -> None:
        """Return input that cannot be saved, and say why."""
        self._bus.emit(ev.InputReturned(texts=(text,), submission_id=submission.id))
        self._fail(submission, error)

    def _interrupt(self, submission: Submission, reason: StopReason) -> None:
        """Stop the running work. If the user stopped it, nothing else starts: queued input is returned, except for
        a prompt that is about to begin, which is stopped as if it had begun."""
        self._dispatcher.outcomes.stop_reason = reason
        waiting = list(self._waiting_inputs(submission.id)) if reason == "interrupted" else []
        if self._active is None and not self._between_turns:
            waiting = waiting[1:]
        returned = self._return_input(waiting, submission.id)
        stopped = self._cancel_active(submission.id)
        self._complete(submission, stopped or returned, "nothing was running")

    def _take_back(self, submission: Submission, text: str) -> None:
        """Return the newest queued input, or the newest with this text, to the user."""
        waiting = self._waiting_inputs(submission.id).items()
        fitting = [each for each, operation in waiting if text in ("", _shown(operation).text)]
        self._complete(submission, self._return_input(fitting[-1:], submission.id), "it no longer waits")

    def _return_input(self, submissions: Sequence[str], submission_id: str) -> bool:
        """Remove queued input from the queue and the running turn, and emit it to the front end. Return False if
        there is none. Input whose removal cannot be saved is at worst offered again after a crash."""
        waiting = self._waiting_inputs()
        returned = [waiting[each] for each in submissions]
        for each in submissions:
            if each in self._open:
                self._complete(Submission(each, TakeBack()), True, "")
            else:
                self._dispatcher.steers.take_back(_shown(waiting[each]).text)
            self._handed_in.pop(each, None)
        if not returned:
            return False
        texts = tuple(each.text for each in returned if isinstance(each, UserInput | Steer) and each.text.strip())
        commands = tuple(as_typed(each) for each in returned if not isinstance(each, UserInput | Steer))
        with contextlib.suppress(StoreError):
            self.services.inbox.drop(*texts)
        self._bus.emit(ev.InputReturned(texts=texts, commands=commands, submission_id=submission_id))
        return True

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something slow without blocking the submission loop."""
        task = asyncio.create_task(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)

    async def _complete_after(self, submission: Submission, work: Coroutine[Any, Any, str | None]) -> None:
        try:
            said = await work
        except Exception as error:  # reported to the submitter; the loop continues
            self._fail(submission, error)
        else:
            self._complete(submission, True, "", said or "")

    def _fail(self, submission: Submission, error: Exception) -> None:
        self._dispatcher.outcomes.failed(submission, error)
        self._open.pop(submission.id, None)

    def _complete(self, submission: Submission, done: bool, otherwise: str, detail: str = "") -> None:
        """End a submission that needs no turn."""
        if done:
            self._bus.emit(msgspec.structs.replace(_completed(submission), detail=detail))
        else:
            error = ev.ErrorInfo(kind="not_applicable", message=otherwise)
            self._dispatcher.outcomes.operation_failed(submission.id, submission.operation, error)
        self._open.pop(submission.id, None)

    async def _shut_down(self, submission: Submission) -> None:
        while not self._turns.empty():
            self._turns.get_nowait()
        if self._active is not None:
            self._cancel_active()
            with contextlib.suppress(asyncio.TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(asyncio.wait({self._active}), _SHUTDOWN_S)
        self._complete(submission, True, "")

    async def _end(self, error: ev.ErrorInfo | None) -> None:
        """Emit a terminal event for every open submission, release all resources, and close the event stream."""
        self._closed = True
        told = error or ev.ErrorInfo(kind="closed", message="the session was closed before this was done")
        for submission_id, operation in self._open.items():
            if isinstance(operation, UserInput | Steer):
                self._bus.emit(
                    ev.TurnFailed(stop_reason="internal_error", error=told, submission_id=submission_id)
                )
            else:
                self._dispatcher.outcomes.operation_failed(submission_id, operation, told)
        self._open.clear()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._dispatcher.aclose(), _SHUTDOWN_S)
        self._bus.emit(ev.SessionClosed(session_id=self._dispatcher.session.header.session_id, error=error))


def _shown(operation: UserInput | Steer | HistoryOperation) -> WaitingInput:
    """Return the display form of queued input."""
    match operation:
        case UserInput(text=text):
            return WaitingInput("prompt", text)
        case Steer(text=text):
            return WaitingInput("steer", text)
        case _:
            return WaitingInput("command", as_typed(operation))


def _completed(submission: Submission) -> ev.OperationCompleted:
    return ev.OperationCompleted(operation=type(submission.operation).__name__, submission_id=submission.id)


def _died(failure: BaseException) -> ev.ErrorInfo:
    return ev.ErrorInfo(
        kind="internal_error",
        message=f"the engine stopped unexpectedly: {type(failure).__name__}: {failure}",
        hints=(Hint("own_fault"), Hint("restart")),
    )
