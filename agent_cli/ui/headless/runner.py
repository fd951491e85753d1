"""One task without a person: events in, one result out, as text, JSON or JSON lines.

Standard output carries the result and nothing else; progress goes to standard error. The result is
written whatever happens: failures, signals, a closed pipe.
"""

import asyncio
import contextlib
import errno
import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TextIO

import msgspec

from agent_cli.config.schema import Ui
from agent_cli.protocol import events as ev
from agent_cli.protocol.agent_types import ENDED, AgentState
from agent_cli.protocol.client import Client
from agent_cli.protocol.hints import Hint
from agent_cli.protocol.messages import FileChange
from agent_cli.protocol.operations import ApprovalAnswer, Interrupt, QuestionAnswer, Shutdown, UserInput
from agent_cli.protocol.sanitize import clean, escape_json
from agent_cli.protocol.stop_reason import DENIED, EXIT_CODES, StopReason, exit_code
from agent_cli.protocol.usage import BESIDE

from ..services import SHUTDOWN_S
from ..text import lines
from ..text.theme import NONE, is_plain

if TYPE_CHECKING:
    from ..text.retries import RetryProgress

OutputFormat = Literal["text", "json", "stream-json"]

_GRACE_S = 5.0
"""How long an interrupted turn may take to end before the result is written without it."""


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


class RunResult(ev.Event, frozen=True, kw_only=True, tag="result"):
    """How the run ended: the last line of `stream-json` and the only output of `json`."""

    session_id: str
    stop_reason: StopReason
    exit_code: int
    text: str
    structured: Any = None
    """The answer as data, when a schema was asked for."""
    usage: UsageTotals
    cost_usd: float | None
    turns: int
    """Model calls."""
    duration_s: float
    changed_files: tuple[ChangedFile, ...]
    commands: tuple[CommandRun, ...]
    verified: bool | None
    denied: tuple[Denied, ...]
    unmet_rules: tuple[str, ...] = ()
    """Rules about what must be done before the end, where it was not done."""
    error: ev.ErrorInfo | None
    usage_is_partial: bool = False
    """Some requests reported no tokens, such as answers that were cut off: `usage` is a lower bound."""
    cost_is_partial: bool = False
    """The cost of some requests is unknown: `cost_usd` is a lower bound."""


class Stopper:
    """What a signal handler holds of a run. `stop` may be called at any time, from the loop's thread."""

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self._called = asyncio.Event()

    def stop(self, reason: StopReason) -> None:
        """Interrupt the run; it ends with this stop reason and still writes its result."""
        self.reason = self.reason or reason
        self._called.set()

    async def wait(self) -> None:
        """Returns once `stop` has been called."""
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
    structure: Callable[[str], object] | None = None,
    stopper: Stopper | None = None,
) -> RunResult:
    """Run `task` to its end and write the result to `out`.

    `verify` runs after the turn and decides whether it counts as a success. `structure` turns the final
    text into data, raising ValueError where it does not fit; the model is then told so once and may answer
    again. With `settings` text on a terminal is rendered as Markdown, and data never is. The engine is
    shut down at the end.
    """
    run = _Run(client, output_format, Pipe(out), Pipe(err), quiet)
    work = asyncio.ensure_future(run.work(task, verify, structure))
    stopper = stopper or Stopper()
    watch = asyncio.ensure_future(stopper.wait())
    over = asyncio.ensure_future(run.turn_over.wait())  # what comes after the turn is stopped at once
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        if stopper.reason and not work.done():
            await client.submit(Interrupt(stopper.reason))
            await asyncio.wait({work, over}, timeout=_GRACE_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in (watch, over, work):
            each.cancel()
        await asyncio.gather(work, watch, over, return_exceptions=True)
    if not work.cancelled() and (failure := work.exception()) is not None:
        run.failed("internal_error", ev.ErrorInfo("internal_error", f"{type(failure).__name__}: {failure}"))
    is_raw = settings is None or structure or is_plain(settings, out, out)
    result = run.finish(stopper.reason, None if is_raw else settings)
    await run.close()
    return result


class _Run:
    """What has been seen of the run so far."""

    def __init__(self, client: Client, output_format: OutputFormat, out: "Pipe", err: "Pipe", quiet: bool):
        self._client, self._format, self._out, self._err, self._quiet = client, output_format, out, err, quiet
        self._before = client.snapshot().totals
        self._session_id = client.snapshot().session_id
        self._start = time.monotonic()
        self._seq = 0
        self._id = ""
        self._text = ""
        self._reason: StopReason = "internal_error"
        self._error: ev.ErrorInfo | None = None
        self._turns = 0
        self._changes: dict[str, FileChange] = {}
        self._commands: list[CommandRun] = []
        self._denied: list[Denied] = []
        self._agents: dict[str, AgentState] = {}
        """What each sub-agent did last, by its id."""
        self._unmet_rules: tuple[str, ...] = ()
        self._structured: object = None
        self._verified: bool | None = None
        self._unfit = ""
        """Why the answer does not fit its schema."""
        self._closed = False
        self._retry: RetryProgress | None = None
        self.turn_over = asyncio.Event()
        """Set when the turn has ended; its result may still be verified."""

    async def work(
        self,
        task: UserInput,
        verify: Callable[[], Awaitable[bool]] | None,
        structure: Callable[[str], object] | None,
    ) -> None:
        completed = await self._turn(task)
        if completed and structure and not self._fits(structure) and self._reason == "end_turn":
            self._progress(f"the answer does not fit the schema: {lines.one_line(self._unfit)}; asked once more")
            completed = await self._turn(UserInput(_AGAIN.format(self._unfit)))
            if completed and not self._fits(structure) and self._reason == "end_turn":
                unfit = ev.ErrorInfo("schema", _UNFIT.format(self._unfit), hints=(Hint("unfit_answer"),))
                self.failed("end_turn", unfit)
        self.turn_over.set()
        if completed and verify:
            self._verified = await verify()
            self._progress("verify: " + ("passed" if self._verified else "failed"))

    async def _turn(self, prompt: UserInput) -> bool:
        """One input to its end; whether that was an end of its own."""
        self._id = await self._client.submit(prompt)
        return await self._consume()

    def _fits(self, structure: Callable[[str], object]) -> bool:
        """Read the answer as data."""
        self._unfit = ""
        try:
            self._structured = structure(self._text)
        except ValueError as problem:
            self._unfit = str(problem) or "it cannot be read"
        return not self._unfit

    async def _consume(self) -> bool:
        """Reads events until ours has ended; whether the turn came to an end of its own."""
        async for event in self._client.events():
            if getattr(event, "error", None) is not None:
                from ..text.hints import with_advice

                event = with_advice(event, "shell", self._client.snapshot())
            self._seq = event.seq
            if self._format == "stream-json":
                self._out.write(encode(event))
            await self._note(event)
            if isinstance(event, ev.TERMINAL) and event.submission_id == self._id:
                return isinstance(event, ev.TurnCompleted)
        if self._error is None:
            self.failed("internal_error", ev.ErrorInfo("internal_error", "The engine ended without an answer."))
        return False

    async def _note(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.SessionStarted():
                self._session_id = event.session_id
            case ev.StepStarted() if event.kind not in BESIDE:
                self._turns += 1
            case ev.AnswerCompleted():
                self._recovered()
                self._text = event.text or self._text
            case ev.ToolCallFinished():
                self._tool(event)
            case ev.AgentChanged():
                self._agent_changed(event)
            case ev.AgentEvent(event=ev.ToolCallFinished() as finished):
                self._record(finished)
            case ev.ApprovalRequested():  # nobody is here: no decision is a refusal
                await self._client.submit(ApprovalAnswer(event.request_id))
            case ev.QuestionAsked():
                answer = "Nobody is here to answer. Decide yourself and say what you assumed."
                await self._client.submit(QuestionAnswer(event.request_id, answer))
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
            case ev.TurnCompleted() if event.submission_id == self._id:
                self._unmet_rules = event.unmet_rules
                self._ended(event.stop_reason, event.text, event.changes)
            case ev.TurnAborted() if event.submission_id == self._id:
                self._ended(event.stop_reason, event.text, event.changes)
            case ev.TurnFailed() if event.submission_id == self._id:
                self._ended(event.stop_reason, "", event.changes)
                self.failed(event.stop_reason, event.error)
            case ev.SessionClosed():
                self._closed = True
                if event.error:
                    self.failed("internal_error", event.error)
            case _:
                pass

    def _retry_scheduled(self, event: ev.RetryScheduled) -> None:
        from ..text.retries import RetryProgress

        self._retry = self._retry or RetryProgress()
        self._retry.scheduled(event, time.monotonic())
        if first := self._retry.first():
            self._progress(first)

    def _recovered(self) -> None:
        """A model call got through, perhaps after retries."""
        retry, self._retry = self._retry, None
        if retry and retry.count > 1:
            self._progress(retry.ended())

    def _tool(self, event: ev.ToolCallFinished) -> None:
        self._progress(lines.tool_line(event, NONE))
        self._record(event)
        if event.status == "denied":
            why = lines.one_line(event.display or event.text, 1000)
            self._progress("\n".join(f"  {row}" for row in lines.wrap(why, self._err.columns - 2)))

    def _record(self, event: ev.ToolCallFinished) -> None:
        """Note what a call of the run or of one of its sub-agents did, for the result."""
        if event.command:
            self._commands.append(CommandRun(event.command, event.exit_code, event.duration_s))
        if event.status == "denied":
            self._denied.append(Denied(event.tool, event.text, event.rule))

    def _agent_changed(self, event: ev.AgentChanged) -> None:
        """Say that a sub-agent begins or has ended."""
        from ..render.agents import change_line

        before, self._agents[event.agent_id] = self._agents.get(event.agent_id), event.state
        begins = event.state == "running" and before not in ("running", "waiting")
        if begins or (event.state in ENDED and event.state != before):
            self._progress(change_line(event))

    def _ended(self, reason: StopReason, text: str, changes: tuple[FileChange, ...]) -> None:
        self._reason = reason
        self._text = text or self._text
        for change in changes:
            self._changes[change.path] = _sum(self._changes.get(change.path), change)

    def failed(self, reason: StopReason, error: ev.ErrorInfo) -> None:
        """The run ends with this error; the first one counts."""
        from ..text.hints import error_with_advice, situation

        self._reason = reason
        self._error = self._error or error_with_advice(error, situation("shell", self._client.snapshot()))

    def _progress(self, line: str) -> None:
        if not self._quiet:
            self._err.write(line + "\n")

    def finish(self, stopped: StopReason | None, rendered: Ui | None) -> RunResult:
        """Builds the result and writes it; text as Markdown where there are settings for that."""
        result = self._result(stopped or self._reason)
        if result.error or (result.stop_reason != "end_turn" and not self._quiet):
            self._tell_end(result, from_outside=stopped is not None)
        if result.exit_code == DENIED and result.denied:
            self._progress(_refusal(result.denied))
        if self._format == "text":
            text = self._rendered(result.text, rendered) if rendered else clean(result.text)
            self._out.write(text if not text or text.endswith("\n") else text + "\n")
        else:
            self._out.write(encode(result))
        if not self._out.failure:
            return result
        self._err.write(f"error: the result could not be written: {self._out.failure}\n")
        code = result.exit_code if result.exit_code >= EXIT_CODES["interrupted"] else EXIT_CODES["internal_error"]
        return msgspec.structs.replace(result, exit_code=code)

    def _rendered(self, text: str, settings: Ui) -> str:
        from .watcher import render_answer

        return render_answer(text, settings, self._out.columns, self._client.snapshot)

    def _tell_end(self, result: RunResult, *, from_outside: bool) -> None:
        """Says what went wrong or stopped the run, and what to do next."""
        from ..text.hints import run_stopped

        if result.error:
            self._err.write(lines.error(result.error, NONE, NO_WRAP) + "\n")
        else:
            saved = bool(self._client.snapshot().session_path)
            line = run_stopped(result.stop_reason, saved=saved, from_outside=from_outside)
            self._err.write(f"{line}\n")

    async def close(self) -> None:
        """Shut the engine down; what it has to tell meanwhile is progress, whatever the format."""
        if self._closed:
            return
        await self._client.submit(Shutdown())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SHUTDOWN_S):
                async for event in self._client.events():
                    if isinstance(event, ev.Notice):
                        await self._note(event)

    def _result(self, reason: StopReason) -> RunResult:
        totals = lines.totals_since(self._before, self._client.snapshot().totals)
        fits = False if self._unfit else self._verified
        return RunResult(
            seq=self._seq + 1,
            submission_id=self._id,
            time=time.time(),
            session_id=self._session_id,
            stop_reason=reason,
            exit_code=exit_code(reason, denied=bool(self._denied), verified=fits),
            text=self._text,
            structured=self._structured,
            usage=UsageTotals(
                totals.input,
                totals.output,
                totals.cache_read,
                totals.cache_write,
                totals.reasoning,
                totals.requests,
            ),
            cost_usd=totals.cost_usd if totals.cost_usd or not totals.unpriced else None,
            usage_is_partial=totals.unmetered > 0 and totals.input is not None,
            cost_is_partial=totals.unpriced > 0 and bool(totals.cost_usd),
            turns=self._turns,
            duration_s=round(time.monotonic() - self._start, 3),
            changed_files=tuple(
                ChangedFile(change.path, change.kind, change.added, change.removed)
                for change in self._changes.values()
            ),
            commands=tuple(self._commands),
            verified=self._verified,
            denied=tuple(self._denied),
            unmet_rules=self._unmet_rules,
            error=self._error,
        )


def _refusal(denied: tuple[Denied, ...]) -> str:
    """Return why the exit code tells of refusals."""
    first = lines.one_line(denied[0].reason, 1000).removeprefix("Denied: ").partition(". ")[0]
    many = f"{len(denied)} calls were denied, the first" if len(denied) > 1 else "1 call was denied"
    return f"exit {DENIED}: {many}: {first}"


_AGAIN = (
    "Your answer does not fit the JSON Schema: {}. Give the whole answer once more as one JSON value that fits "
    "it, and nothing else."
)
_UNFIT = "The answer does not fit the schema, nor did the one before it: {}"


def _sum(before: FileChange | None, after: FileChange) -> FileChange:
    """Return what has happened to a file in two turns."""
    if before is None:
        return after
    kind = "created" if before.kind == "created" and after.kind == "modified" else after.kind
    return FileChange(after.path, kind, before.added + after.added, before.removed + after.removed)


def encode(event: ev.Event) -> str:
    """Encode an event as one line of JSON, in which nothing can control a terminal."""
    try:
        return escape_json(msgspec.json.encode(event).decode("utf-8") + "\n")
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot hold
        import json

        return json.dumps(msgspec.to_builtins(event)) + "\n"


NO_WRAP = 1_000_000


class Pipe:
    """Writes until it cannot any more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream
        self.failure = ""
        """Why text was lost, where it was not that the reader wanted no more."""
        self.is_terminal = stream.isatty()
        self.columns = _columns() if self.is_terminal else NO_WRAP

    def write(self, text: str) -> None:
        """Write and flush; nothing once that has failed."""
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except UnicodeEncodeError:
            self.write(text.encode("ascii", "backslashreplace").decode("ascii"))
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno != errno.EPIPE:
                self.failure = error.strerror or str(error)
            self._close(self._stream)

    def _close(self, stream: TextIO) -> None:
        """Nobody reads any more: what is still buffered must not fail again when the program exits."""
        self._stream = None
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
        except (OSError, ValueError):
            pass


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns
