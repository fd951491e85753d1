"""Run one task without interaction: events in, one result out, as text, JSON or JSON lines.

Standard output carries the result and, with `stream-json`, the events; progress goes to standard error. The result
is always written, even after failures, signals or a closed pipe.
"""

import asyncio
import contextlib
import errno
import signal
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TextIO

import msgspec

from agent_cli.config.schema import Ui
from agent_cli.protocol import events as ev
from agent_cli.protocol.agent_types import ENDED, AgentState
from agent_cli.protocol.client import SHUTDOWN_S, Client
from agent_cli.protocol.operations import (
    ApprovalAnswer,
    Interrupt,
    Operation,
    QuestionAnswer,
    Shutdown,
    UserInput,
)
from agent_cli.protocol.run_outcome import ChangedFile, CommandRun, Denied, RunOutcome
from agent_cli.protocol.sanitize import clean, escape_json, without_data_marks
from agent_cli.protocol.stop_reason import DENIED, EXIT_CODES, StopReason
from agent_cli.protocol.usage import UsageTotals

from ..text import lines
from ..text.theme import NONE, is_plain

if TYPE_CHECKING:
    from ..text.retries import RetryProgress
    from .partial_output import PartialAnswer

OutputFormat = Literal["text", "json", "stream-json"]

GRACE_S = 5.0
"""Seconds that an interrupted turn has to end before the result is written without it."""


class RunResult(ev.Event, frozen=True, kw_only=True, tag="result"):
    """How the run ended: the last line of `stream-json` and the only output of `json`."""

    session_id: str
    stop_reason: StopReason
    exit_code: int
    text: str
    structured: Any = None
    """The answer as data, if a schema was requested."""
    usage: UsageTotals
    cost_usd: float | None
    turns: int
    """Number of model calls."""
    duration_s: float
    changed_files: tuple[ChangedFile, ...]
    commands: tuple[CommandRun, ...]
    verified: bool | None
    denied: tuple[Denied, ...]
    unmet_rules: tuple[str, ...] = ()
    """Rules on required actions that were not met by the end."""
    error: ev.ErrorInfo | None
    usage_is_partial: bool = False
    """Some requests reported no tokens, such as answers that were cut off: `usage` is a lower bound."""
    cost_is_partial: bool = False
    """The cost of some requests is unknown: `cost_usd` is a lower bound."""


class StopHandle:
    """Handle through which a signal handler stops a run. `stop` may be called at any time from the loop's
    thread."""

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.signal = 0
        """The signal that stopped the run, used for the exit code; 0 for none."""
        self._called = asyncio.Event()

    def stop(self, reason: StopReason, number: int = 0) -> None:
        """Interrupt the run; it ends with this stop reason and still writes its result. `number` is the signal
        that caused the stop, if any."""
        if self.reason is None:
            self.reason, self.signal = reason, int(number)
        self._called.set()

    async def wait(self) -> None:
        """Return once `stop` has been called."""
        await self._called.wait()


async def run_task(
    client: Client,
    task: UserInput,
    *,
    output_format: OutputFormat = "text",
    quiet: bool = False,
    settings: Ui | None = None,
    out: TextIO,
    err: TextIO,
    verify: Callable[[], Awaitable[bool]] | None = None,
    parse_answer: Callable[[str], object] | None = None,
    stopper: StopHandle | None = None,
) -> RunResult:
    """Run `task` to its end and write the result to `out`.

    `verify` runs after the turn and decides whether it counts as a success. `parse_answer` turns the final text
    into data and raises ValueError if it does not fit; the model is then told so once and may answer again. With
    `settings`, text output on a terminal is rendered as Markdown; data never is. The engine is shut down at the
    end.
    """
    stopper = stopper or StopHandle()
    run = Run(client, output_format, Pipe(out, stopper), Pipe(err, stopper), quiet, stopper)
    work = asyncio.ensure_future(run.work(task, verify, parse_answer))
    watch = asyncio.ensure_future(stopper.wait())
    over = asyncio.ensure_future(run.turn_over.wait())  # work after the turn is stopped at once
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        if stopper.reason and not work.done():
            await client.submit(Interrupt(stopper.reason))
            await asyncio.wait({work, over}, timeout=GRACE_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in (watch, over, work):
            each.cancel()
        await asyncio.gather(work, watch, over, return_exceptions=True)
    run.note_failure(work)
    is_raw = settings is None or parse_answer or is_plain(settings, out, out)
    result = run.finish(None if is_raw else settings)
    await run.close()
    return result


class Output(Protocol):
    """Sink for the lines of a run."""

    failure: str
    """Why text was lost; empty if the reader merely closed the pipe."""
    interrupted: int
    """The signal that came while nobody read; 0 for none."""
    columns: int

    def write(self, text: str) -> None:
        """Write and flush; do nothing after a failure."""


class Run:
    """The state of a run so far."""

    def __init__(
        self,
        client: Client,
        output_format: OutputFormat,
        out: Output,
        err: Output,
        quiet: bool,
        stopper: StopHandle,
    ) -> None:
        self._client, self._format, self._out, self._err, self._quiet = client, output_format, out, err, quiet
        self._stopper = stopper
        now = client.snapshot()
        self._outcome = RunOutcome(now.totals, now.session_id)
        self._start = time.monotonic()
        self._seq = 0
        self._id = ""
        self._agents: dict[str, AgentState] = {}
        """Last state of each sub-agent, by its id."""
        self._verified: bool | None = None
        self._closed = False
        self._retry: RetryProgress | None = None
        self._partial: PartialAnswer | None = None
        self.turn_over = asyncio.Event()
        """Set when the turn has ended; its result may still be verified."""

    async def work(
        self,
        task: UserInput,
        verify: Callable[[], Awaitable[bool]] | None,
        parse_answer: Callable[[str], object] | None,
    ) -> None:
        if parse_answer:
            self.show_partial_answers()
        completed = await self._turn(task)
        if completed and parse_answer and self._outcome.needs_correction(parse_answer):
            self._say_unfit()
            completed = await self._turn(self._outcome.correction(task.answer_schema))
            if completed and self._outcome.needs_correction(parse_answer):
                self.failed("end_turn", self._outcome.misfit())
        self.turn_over.set()
        if completed and verify:
            self._verified = await verify()
            self._progress("verify: " + ("passed" if self._verified else "failed"))

    def _say_unfit(self) -> None:
        self._progress(
            f"the answer does not fit the schema: {lines.one_line(self._outcome.unfit)}; asked once more"
        )

    async def _turn(self, prompt: UserInput) -> bool:
        """Run a prompt to its end; return True if the turn completed."""
        self._id = await self._client.submit(prompt)
        return await self._consume()

    async def _consume(self) -> bool:
        """Process events until the turn has ended; return True if it completed."""
        async for event in self._client.events():
            await self._take(event)
            if isinstance(event, ev.TERMINAL) and event.submission_id == self._id:
                return isinstance(event, ev.TurnCompleted)
        if self._outcome.error is None:
            self.failed("internal_error", ev.ErrorInfo("internal_error", "The engine ended without an answer."))
        return False

    async def _take(self, event: ev.AnyEvent) -> None:
        """Write an event and record it."""
        if getattr(event, "error", None) is not None:
            from ..text.hints import with_advice

            event = with_advice(event, "shell", self._client.snapshot())
        self._show(event)
        if self._partial is not None and (found := self._partial.note(event)):
            self._show(found)
        await self._note(event)

    def show_partial_answers(self) -> None:
        """Also write partial structured answers while the answer streams."""
        if self._format == "stream-json":
            from .partial_output import PartialAnswer

            self._partial = PartialAnswer()

    def _show(self, event: ev.Event) -> None:
        """Write a line of `stream-json`. Lines are renumbered, because some are not engine events."""
        self._seq += 1
        if self._format == "stream-json":
            self._out.write(encode(msgspec.structs.replace(event, seq=self._seq)))

    async def _note(self, event: ev.AnyEvent) -> None:
        self._outcome.note(event, self._id)
        match event:
            case ev.AnswerCompleted():
                self._recovered()
            case ev.ToolCallFinished():
                self._tool(event)
            case ev.AgentChanged():
                self._agent_changed(event)
            case ev.ApprovalRequested() | ev.QuestionAsked():
                await self._asked(event)
            case ev.RetryScheduled():
                self._retry_scheduled(event)
            case ev.StreamSilent() if event.silent_s:
                self._progress(f"no data from the model for {lines.seconds(event.silent_s)}")
            case ev.ToolSilent():
                self._progress(f"the running command has shown nothing for {lines.seconds(event.silent_s)}")
            case ev.FellBack():
                self._progress(f"warning: {lines.one_line(event.error.message)}; {event.model} takes over")
            case ev.Notice():
                self._progress(f"{event.level}: {lines.one_line(event.text, 1000)}")
            case ev.Compacted():
                before, after = lines.count(event.before), lines.count(event.after)
                self._progress(f"context compacted: {before} → {after} tokens")
            case ev.Attached():
                self._progress(lines.attachment_line(event))
            case ev.SessionClosed():
                self._closed = True

    async def _asked(self, event: ev.ApprovalRequested | ev.QuestionAsked) -> None:
        """Refuse the request: nobody can answer."""
        await self._client.submit(refusal(event))

    def _retry_scheduled(self, event: ev.RetryScheduled) -> None:
        from ..text.retries import RetryProgress

        self._retry = self._retry or RetryProgress()
        self._retry.scheduled(event, time.monotonic())
        if first := self._retry.first():
            self._progress(first)

    def _recovered(self) -> None:
        """End the retry progress: a model call succeeded, perhaps after retries."""
        retry, self._retry = self._retry, None
        if retry and retry.count > 1:
            self._progress(retry.ended())

    def _tool(self, event: ev.ToolCallFinished) -> None:
        self._progress(lines.tool_line(event, NONE))
        said = (event.display or without_data_marks(event.text)).strip()
        if event.status == "denied":
            why = lines.one_line(said, 1000)
        elif event.status == "failed" and event.exit_code is None:
            rows = [row for row in said.split("\n") if row.strip()]
            first = next((row for row in rows if not row.startswith("#")), said)  # a heading such as `### Error`
            why = lines.one_line(first, 200)
        else:
            return
        self._progress("\n".join(f"  {row}" for row in lines.wrap(why, self._err.columns - 2)))

    def _agent_changed(self, event: ev.AgentChanged) -> None:
        """Report that a sub-agent begins or has ended."""
        from ..render.agents import change_line

        before, self._agents[event.agent_id] = self._agents.get(event.agent_id), event.state
        begins = event.state == "running" and before not in ("running", "waiting")
        if begins or (event.state in ENDED and event.state != before):
            self._progress(change_line(event))

    def note_failure(self, work: "asyncio.Future[None]") -> None:
        """Fail the run with the exception of its task, if there is one."""
        if not work.cancelled() and (failure := work.exception()) is not None:
            self.failed("internal_error", ev.ErrorInfo("internal_error", f"{type(failure).__name__}: {failure}"))

    def failed(self, reason: StopReason, error: ev.ErrorInfo) -> None:
        """End the run with this error; the first error counts."""
        from ..text.hints import error_with_advice, situation

        self._outcome.failed(reason, error_with_advice(error, situation("shell", self._client.snapshot())))

    def _progress(self, line: str) -> None:
        if not self._quiet:
            self._err.write(line + "\n")

    def finish(self, rendered: Ui | None) -> RunResult:
        """Build the result and write it; text as Markdown if there are settings for it."""
        stopped = self._stopper.reason
        result = self._result(stopped)
        self._tell(result, from_outside=stopped is not None)
        if self._format == "text":
            text = clean(result.text)
            if rendered:
                from .watcher import render_answer

                text = render_answer(result.text, rendered, self._out.columns, self._client.snapshot)
            self._out.write(text if not text or text.endswith("\n") else text + "\n")
        else:
            self._out.write(encode(result))
        return self._as_written(result)

    def _as_written(self, result: RunResult) -> RunResult:
        """Return the result, with another exit code if writing failed or was interrupted."""
        if self._out.interrupted and result.exit_code < EXIT_CODES["interrupted"]:
            return msgspec.structs.replace(result, exit_code=128 + self._out.interrupted)
        if not self._out.failure:
            return result
        self._err.write(f"error: the result could not be written: {self._out.failure}\n")
        code = result.exit_code if result.exit_code >= EXIT_CODES["interrupted"] else EXIT_CODES["internal_error"]
        return msgspec.structs.replace(result, exit_code=code)

    def _tell(self, result: RunResult, *, from_outside: bool) -> None:
        """Report on standard error how the run ended, unless it ended normally."""
        if result.error or (result.stop_reason != "end_turn" and not self._quiet):
            self._tell_end(result, from_outside=from_outside)
        if result.exit_code == DENIED and result.denied:
            self._progress(_denials(result.denied))

    def _tell_end(self, result: RunResult, *, from_outside: bool) -> None:
        """Report what failed or stopped the run, and what to do next."""
        from ..text.hints import run_stopped

        if result.error:
            self._err.write(lines.error(result.error, NONE, NO_WRAP) + "\n")
        else:
            saved = bool(self._client.snapshot().session_path)
            line = run_stopped(result.stop_reason, saved=saved, from_outside=from_outside)
            self._err.write(f"{line}\n")

    async def close(self) -> None:
        """Shut the engine down; notices that arrive meanwhile are printed as progress in every output format."""
        if self._closed:
            return
        await self._client.submit(Shutdown())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SHUTDOWN_S):
                async for event in self._client.events():
                    if isinstance(event, ev.Notice):
                        await self._note(event)

    def _result(self, stopped: StopReason | None) -> RunResult:
        outcome = self._outcome
        reason, number = stopped or outcome.stop_reason, self._stopper.signal
        is_by_signal = bool(number) and reason == self._stopper.reason
        code = 128 + number if is_by_signal else outcome.exit_code(stopped, verified=self._verified)
        totals = self._client.snapshot().totals
        spent = outcome.spent(totals)
        return RunResult(
            seq=self._seq + 1,
            submission_id=self._id,
            time=time.time(),
            session_id=outcome.session_id,
            stop_reason=reason,
            exit_code=code,
            text=outcome.text,
            structured=outcome.structured,
            usage=outcome.usage(totals),
            cost_usd=outcome.cost_usd(totals),
            usage_is_partial=spent.unmetered > 0 and spent.input is not None,
            cost_is_partial=spent.unpriced > 0 and bool(spent.cost_usd),
            turns=outcome.turns,
            duration_s=round(time.monotonic() - self._start, 3),
            changed_files=outcome.changed_files,
            commands=outcome.commands,
            verified=self._verified,
            denied=outcome.denied,
            unmet_rules=outcome.unmet_rules,
            error=outcome.error,
        )


def refusal(event: ev.ApprovalRequested | ev.QuestionAsked) -> Operation:
    """Return the refusal of a request that nobody can answer; an approval without decisions is a refusal."""
    if isinstance(event, ev.ApprovalRequested):
        return ApprovalAnswer(event.request_id)
    return QuestionAnswer(event.request_id, "No user is here to answer. Decide yourself and say what you assumed.")


def _denials(denied: tuple[Denied, ...]) -> str:
    """Return the explanation of the exit code for denied calls."""
    first = lines.one_line(denied[0].reason, 1000).removeprefix("Denied: ").partition(". ")[0]
    many = f"{len(denied)} calls were denied, the first" if len(denied) > 1 else "1 call was denied"
    return f"exit {DENIED}: {many}: {first}"


def encode(event: ev.Event) -> str:
    """Encode an event as one line of JSON without terminal control characters."""
    try:
        return escape_json(msgspec.json.encode(event).decode("utf-8") + "\n")
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot encode
        import json

        return json.dumps(msgspec.to_builtins(event)) + "\n"


NO_WRAP = 1_000_000


class Pipe:
    """Writes to a stream until writing fails."""

    def __init__(self, stream: TextIO, stopper: StopHandle | None = None) -> None:
        self._stream: TextIO | None = stream
        self._stopper = stopper or StopHandle()
        self.failure = ""
        """Why text was lost; empty if the reader merely closed the pipe."""
        self.interrupted = 0
        """The signal that came while nobody read; 0 for none."""
        self.is_terminal = stream.isatty()
        self.columns = NO_WRAP
        if self.is_terminal:
            import shutil

            self.columns = shutil.get_terminal_size().columns

    def write(self, text: str) -> None:
        """Write and flush; do nothing after a failure."""
        if self._stream is None:
            return
        from agent_cli.fs.waiting_io import WriteInterrupted

        try:
            self._write(self._stream, text)
        except WriteInterrupted as error:
            self.interrupted = error.number
            self._close(self._stream)
        except UnicodeEncodeError:
            self.write(text.encode("ascii", "backslashreplace").decode("ascii"))
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno != errno.EPIPE:
                self.failure = error.strerror or str(error)
            self._close(self._stream)

    def _write(self, stream: TextIO, text: str) -> None:
        """Write to the descriptor itself: an unbuffered stream (PYTHONUNBUFFERED) loses what a pipe does not take
        at once. A stream without one is written as it is. After a signal other than SIGINT, which a person can
        send again, a reader that takes nothing is waited for only some seconds."""
        from agent_cli.fs.waiting_io import write_interruptibly

        stream.flush()
        try:
            sink = stream.fileno()
        except (OSError, ValueError, AttributeError):
            stream.write(text)
            stream.flush()
            return
        came = self._stopper.signal if self._stopper.signal != signal.SIGINT else 0
        write_interruptibly(sink, text.encode(stream.encoding or "utf-8", stream.errors or "strict"), came)

    def _close(self, stream: TextIO) -> None:
        """Redirect the closed stream to null: text still buffered must not fail again when the program exits."""
        from agent_cli.fs.waiting_io import discard_output

        self._stream = None
        with contextlib.suppress(OSError, ValueError):
            discard_output(stream.fileno())
