"""A run steered by another program: operations in as JSON lines, events out, and a result for each prompt.

Prompts go straight to the engine, which queues them, so that an interrupt or a crash finds them there. The end of
the input, or a reader that goes away, means that no more operations come: submitted work is finished, and approval
requests and questions are refused.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from agent_cli.protocol import events as ev
from agent_cli.protocol.client import Client
from agent_cli.protocol.operations import ApprovalAnswer, Interrupt, Operation, QuestionAnswer, UserInput
from agent_cli.protocol.run_outcome import RunOutcome
from agent_cli.protocol.stop_reason import StopReason

from .line_streams import ThreadedOutput
from .operation_lines import OperationLine
from .runner import GRACE_S, Output, Run, RunResult, StopHandle, refusal

_DRAIN_S = 2.0
"""Seconds that a reader has for the last lines after a signal."""


class OperationTaken(ev.Event, frozen=True, kw_only=True, tag="operation_taken"):
    """A line of standard input was submitted. Events with the same `submission_id` belong to it."""

    line: int
    """Number of the line, from 1."""
    operation: str
    """The `type` of the operation."""


async def run_conversation(
    client: Client,
    task: UserInput | None,
    lines: AsyncIterator[OperationLine],
    *,
    out: ThreadedOutput,
    err: Output,
    quiet: bool = False,
    parse_answer: Callable[[str], object] | None = None,
    schema: dict[str, Any] | None = None,
    stopper: StopHandle,
) -> RunResult:
    """Run `task` and the operations in `lines` to the end of both, and return the last result.

    `parse_answer` turns an answer into data that fits `schema`, as in `run_task`. An external stop interrupts the
    running turn and ends the conversation. The engine is shut down at the end.
    """
    conversation = Conversation(client, out, err, quiet, parse_answer, schema, stopper)
    work = asyncio.ensure_future(conversation.converse(task, lines))
    watch = asyncio.ensure_future(stopper.wait())
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        if stopper.reason and not work.done():
            conversation.end_after_turn()
            await client.submit(Interrupt(stopper.reason))
            await asyncio.wait({work}, timeout=GRACE_S)
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    conversation.note_failure(work)
    conversation.write_last_result(stopper.reason)
    await conversation.close()
    drained = asyncio.ensure_future(out.drained())
    await asyncio.wait({drained, watch}, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait({drained}, timeout=_DRAIN_S)
    for each in (drained, watch):
        each.cancel()
    return conversation.last_result()


class Conversation(Run):
    """The state of a steered run so far."""

    def __init__(
        self,
        client: Client,
        out: ThreadedOutput,
        err: Output,
        quiet: bool,
        parse_answer: Callable[[str], object] | None,
        schema: dict[str, Any] | None,
        stopper: StopHandle,
    ) -> None:
        super().__init__(client, "stream-json", out, err, quiet, stopper)
        self._reader_is_gone = out.closed
        self._parse_answer, self._schema = parse_answer, schema
        if parse_answer is not None:
            self.show_partial_answers()
        self._is_open = True
        """True while operations and answers may still arrive."""
        self._ends = asyncio.Event()
        """Set when the running turn is the last one."""
        self._has_ended = False
        """True once the last turn has ended."""
        self._open: set[str] = set()
        """Submissions that have not ended."""
        self._refusals: dict[str, Operation] = {}
        """The operation that refuses each open request, by request id."""
        self._correction = self._corrected = ""
        """The submission that asks for a second answer, and the submission whose answer it corrects."""
        self._lines_taken = 0
        self._last: RunResult | None = None
        self._last_is_result = False
        """True if the last line written is a result."""

    def end_after_turn(self) -> None:
        """Make the running turn the last one; end at once if none is running."""
        self._ends.set()

    async def converse(self, task: UserInput | None, lines: AsyncIterator[OperationLine]) -> None:
        """Process operations and events until both have ended."""
        if task is not None:
            await self._submit(task)
        events = self._client.events()
        upcoming = asyncio.ensure_future(anext(events))
        feeding = asyncio.ensure_future(self._feed(lines))
        over = tuple(map(asyncio.ensure_future, (self._ends.wait(), self._reader_is_gone.wait())))
        try:
            while True:
                waited = {upcoming, *(each for each in (feeding, *over) if not each.done())}
                # The engine's events up to idle are available at once.
                timeout_s = 0.0 if (is_over := self._is_over()) else None
                await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
                if feeding.done():
                    feeding.result()
                if self._is_open and any(each.done() for each in (feeding, *over)):
                    self._is_open = False
                    for answer in self._refusals.values():  # nobody is left to answer
                        await self._submit(answer)
                elif upcoming.done():
                    await self._take(upcoming.result())
                    if self._closed:
                        return
                    upcoming = asyncio.ensure_future(anext(events))
                elif is_over:
                    return
        finally:
            tasks = (upcoming, feeding, *over)
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _submit(self, operation: Operation) -> str:
        submission = await self._client.submit(operation)
        self._open.add(submission)
        return submission

    async def _feed(self, lines: AsyncIterator[OperationLine]) -> None:
        async for line in lines:
            if line.operation is None:
                error = ev.ErrorInfo("bad_line", f"line {line.number} of standard input: {line.wrong}")
                self._show(ev.OperationFailed(operation="", error=error, time=time.time()))
                continue
            self._lines_taken += 1
            if isinstance(line.operation, ApprovalAnswer | QuestionAnswer):
                self._refusals.pop(line.operation.request_id, None)
            submission = await self._submit(line.operation)
            self._show(
                OperationTaken(line=line.number, operation=line.name, submission_id=submission, time=time.time())
            )

    def _is_over(self) -> bool:
        """Return True if nothing is running and nothing more is to begin. Guidance that arrived too late for its
        turn becomes a prompt, which only the engine knows of."""
        now = self._client.snapshot()
        if self._ends.is_set():
            return self._has_ended or not now.busy
        return not (self._is_open or self._open or now.busy or now.waiting)

    async def _take(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.TurnStarted):
            self._id = event.submission_id
            self._start = self._start if self._id == self._correction else time.monotonic()
        await super()._take(event)
        if isinstance(event, ev.TERMINAL):
            self._open.discard(event.submission_id)
        if isinstance(event, ev.TurnCompleted | ev.TurnAborted | ev.TurnFailed):
            await self._turn_ended(event)
        elif isinstance(event, ev.ApprovalResolved | ev.QuestionResolved):
            self._refusals.pop(event.request_id, None)

    async def _asked(self, event: ev.ApprovalRequested | ev.QuestionAsked) -> None:
        if self._is_open:
            self._refusals[event.request_id] = refusal(event)
        else:
            await super()._asked(event)

    async def _turn_ended(self, event: ev.TurnCompleted | ev.TurnAborted | ev.TurnFailed) -> None:
        """Write the result of a prompt, unless its answer is requested a second time."""
        self._has_ended = self._ends.is_set()
        if event.submission_id != self._id:  # this one could not begin: another may be running
            self._id = event.submission_id
            self._outcome.note(event, self._id)
        outcome, is_second = self._outcome, event.submission_id == self._correction
        is_unfit = (
            self._parse_answer is not None and outcome.completed and outcome.needs_correction(self._parse_answer)
        )
        if is_unfit and not is_second and not self._open and not self._ends.is_set():
            self._say_unfit()
            self._corrected = self._id
            self._correction = await self._submit(outcome.correction(self._schema))
            return
        if is_unfit:
            self.failed("end_turn", outcome.misfit(is_second=is_second))
        self._id = self._corrected if is_second else self._id
        self._write_result(self._result(None))

    def _write_result(self, result: RunResult, *, from_outside: bool = False) -> None:
        """Write a result, and begin to collect the next one."""
        self._tell(result, from_outside=from_outside)
        self._show(result)
        self._last = result
        self._outcome = RunOutcome(self._client.snapshot().totals, result.session_id)
        self._start = time.monotonic()

    def write_last_result(self, stopped: StopReason | None) -> None:
        """Write a final result if the last line is not a result, or does not say why the conversation was
        stopped."""
        last, outcome = self._last, self._outcome
        if self._last_is_result and last and (stopped is None or last.stop_reason == stopped):
            return
        if stopped is None and outcome.error is None:
            if last is None and not self._lines_taken:
                outcome.failed("usage_error", ev.ErrorInfo("usage_error", _NO_PROMPT))
            else:
                outcome.stop_reason = last.stop_reason if last else "end_turn"
        result = self._result(stopped)
        if last is not None and stopped is None and outcome.error is None:
            result = msgspec.structs.replace(result, exit_code=last.exit_code)
        self._id = ""
        self._write_result(msgspec.structs.replace(result, submission_id=""), from_outside=stopped is not None)

    def last_result(self) -> RunResult:
        """Return the result written last."""
        assert self._last is not None
        return self._as_written(self._last)

    def _show(self, event: ev.Event) -> None:
        super()._show(event)
        self._last_is_result = isinstance(event, RunResult)


_NO_PROMPT = (
    'no prompt came on standard input; write lines such as {"type": "user_input", "text": "…"}, or name a task'
)
