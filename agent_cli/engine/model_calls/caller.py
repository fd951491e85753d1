"""One model call: the request is streamed, forwarded as events, recorded and saved, through all its retries and
fallbacks."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial

import msgspec

from agent_cli.model.assemble import Assembler
from agent_cli.model.transport.errors import explain
from agent_cli.model.transport.retry import RetryPolicy, stream_with_retries
from agent_cli.model.types.base import (
    Adjusted,
    Alive,
    Answer,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    ReasoningPiece,
    Retrying,
    TextPiece,
    TextWasThought,
)
from agent_cli.protocol import events as ev
from agent_cli.protocol.messages import AssistantMessage, Finish, ToolCall, new_id
from agent_cli.protocol.records import ModelCalled, PartialAnswer, RequestSent
from agent_cli.protocol.usage import NON_CONVERSATION_KINDS, CallKind, Usage
from agent_cli.session import costs
from agent_cli.session.event_bus import TurnScope
from agent_cli.session.history import cut_off_request
from agent_cli.session.session import Session
from agent_cli.store.session_file import StoreError

from .budget import BudgetLimits, OverBudget
from .model_selection import Models

SILENT_S = 10.0
"""Seconds without data after which the user is told."""
_ATTEMPTS_BEFORE_ANOTHER = 3
_HORIZON_BEFORE_ANOTHER_S = 30.0
"""If another fallback model is left, a failing model is not retried for long."""
_SUMMARY_TOKENS = 4_000
"""Tokens reserved for a summary in the window of the model that writes it."""
_SMALL_FAILED = "small_model {0} could not write the summary ({1}); the current model writes it instead."
_UNPARSED = (
    "The server sends the model's reasoning as text. Start it with a reasoning parser (vLLM and SGLang:"
    " --reasoning-parser)."
)
_SAVE_EVERY_S = 1.0
"""Seconds of an answer that a crash may lose."""
_ANOTHER_MAY_HELP = frozenset({"quota", "unsupported"})
_FASTEST_TOKENS_S = 3_000
"""No provider generates tokens faster than this, hidden reasoning included."""
_WHOLE: frozenset[Finish] = frozenset({"stop", "tool_calls"})
"""Calls may run only from an answer that ended normally."""


class ModelCall:
    """One model call through all its retries. Each failed attempt is recorded separately."""

    def __init__(
        self,
        session: Session,
        model: Model,
        kind: CallKind,
        turn_id: str,
        tools: frozenset[str],
        book: Callable[[ModelCalled], None],
    ) -> None:
        """`tools` are the names of the tools that the model may call. `book` is called with the record of each
        finished attempt."""
        self._session = session
        self._kind: CallKind = kind
        self._turn_id = turn_id
        self._tools = tools
        self._book = book
        self._started = self.heard = time.monotonic()
        self._assembler = Assembler()
        self.model = model
        self.name = model.info.name
        self.first_token_s: float | None = None
        self.input_tokens = self.longest = 0
        """Estimated tokens of the prompt, and maximum tokens of the answer."""
        self._is_open = False
        """True while a request is recorded whose end is not."""
        self._saved = 0
        """Number of characters of text already on disk."""
        self._is_void = False
        """True if the text on disk has turned out to be reasoning."""
        self.shown = 0
        """Number of characters of text shown so far; a failure makes them void."""

    async def begin(self) -> None:
        """Record that a request is sent, so that a crash does not hide its possible cost."""
        self._saved, self._is_void = 0, False
        sent = RequestSent(id=new_id("request"), turn_id=self._turn_id, kind=self._kind, model=self.name)
        saved = self._session.save(sent)
        self._is_open = True
        await saved

    async def save_partial(self) -> None:
        """Save the text received since the last call. A failure is ignored here: saving the complete answer
        reports it."""
        if not self.shows:
            return
        text = self._assembler.answer().text
        if len(text) > self._saved or self._is_void:
            piece = PartialAnswer(
                id=new_id("part"), turn_id=self._turn_id, text=text[self._saved :], is_anew=self._is_void
            )
            with contextlib.suppress(StoreError):
                saved = self._session.save(piece)
                self._saved, self._is_void = len(text), False
                await saved

    @property
    def shows(self) -> bool:
        """True if the answer is part of the conversation."""
        return self._kind not in NON_CONVERSATION_KINDS

    @property
    def has_text(self) -> bool:
        """True if the answer has text so far."""
        return bool(self._assembler.answer().text)

    def elapsed_s(self) -> float:
        """Return the seconds since this attempt began."""
        return time.monotonic() - self._started

    def feed(self, event: ModelEvent) -> None:
        """Process one event."""
        if not isinstance(event, Retrying | Adjusted):
            self.heard = time.monotonic()
            if self.first_token_s is None and not isinstance(event, Alive):
                self.first_token_s = self.elapsed_s()
        self._assembler.feed(event)
        if isinstance(event, TextWasThought) and not self.has_text:
            self._saved, self._is_void = 0, self._is_void or self._saved > 0

    def failed(self, outcome: str, *, pause_s: float = 0.0, usage: Usage | None = None) -> None:
        """Record a failed attempt that will be retried after a pause."""
        self._append(self._entry(outcome, usage or self._assembler.answer().usage))
        self._started = self.heard = time.monotonic() + pause_s
        self.first_token_s = None

    def close(self, outcome: str, *, usage: Usage | None = None, keep_text: bool = True) -> None:
        """Record the last attempt, which did not complete, and keep its text if `keep_text`. Do nothing if its end
        is recorded."""
        if not self._is_open:
            return
        partial = self._assembler.answer()
        entry = self._entry(outcome, usage or partial.usage)
        if self.shows and keep_text and partial.text.strip():
            self._append(entry, self._message(partial, (), "interrupted"))
        else:
            self._append(entry)

    def save(self) -> tuple[Answer, AssistantMessage | None]:
        """Record a finished attempt and save its answer, without calls that may be incomplete."""
        answer = self._assembler.answer()
        entry = self._entry(answer.finish, answer.usage)
        calls = answer.calls if answer.finish in _WHOLE and self._kind != "limit" else ()
        if not self.shows or not (answer.text.strip() or calls):
            self._append(entry)
            return answer, None
        message = self._message(answer, self._unique(calls), answer.finish)
        self._append(entry, message)
        return answer, message

    def _append(self, entry: ModelCalled, *messages: AssistantMessage) -> None:
        """Record the end of the attempt. It reaches the disk with what follows: a request, the start of a call or
        the end of the turn."""
        self._session.append(entry, *messages, durable=False)
        self._is_open = False
        self._book(entry)

    def _message(self, answer: Answer, calls: tuple[ToolCall, ...], finish: Finish) -> AssistantMessage:
        return AssistantMessage(
            id=new_id("msg"),
            turn_id=self._turn_id,
            text=answer.text,
            calls=calls,
            finish=finish,
            reasoning=answer.reasoning,
            model=self.name,
        )

    def _entry(self, outcome: str, usage: Usage | None) -> ModelCalled:
        info = self.model.info
        cost = info.cost_usd(usage)
        if usage is None and self.first_token_s is None and outcome != "interrupted":
            cost = 0.0  # the provider refused or failed before any output, so nothing is billed
        return ModelCalled(
            id=new_id("call"),
            turn_id=self._turn_id,
            kind=self._kind,
            model=self.name,
            outcome=outcome,
            usage=usage,
            cost_usd=cost,
            at_most_usd=self._at_most_usd() if cost is None else None,
            duration_s=round(max(0.0, self.elapsed_s()), 3),
            first_token_s=None if self.first_token_s is None else round(self.first_token_s, 3),
        )

    def _at_most_usd(self) -> float | None:
        """Return the maximum cost of this attempt: the answer is assumed as long as the elapsed time or the
        received text implies."""
        partial = self._assembler.answer()
        texts = (partial.text, *(each.text for each in partial.reasoning), *(it.arguments for it in partial.calls))
        possible = max(sum(map(len, texts)), int(self.elapsed_s() * _FASTEST_TOKENS_S))
        return self.model.info.worst_case_usd(self.input_tokens, min(self.longest, possible))

    def _unique(self, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
        """Return the calls with ids unique in this session, because providers repeat or omit ids."""
        used: set[str] = set()
        unique = []
        for call in calls:
            is_new = call.id and call.id not in used and not self._session.has_call(call.id)
            identifier = call.id if is_new else new_id("call")
            used.add(identifier)
            name, arguments = self._own(call)
            call = msgspec.structs.replace(call, id=identifier, name=sys.intern(name), arguments=arguments)
            unique.append(call)
        return tuple(unique)

    def _own(self, call: ToolCall) -> tuple[str, str]:
        if call.name in self._tools:
            return call.name, call.arguments
        from agent_cli.tools.kit.other_names import own_call

        return own_call(call.name, call.arguments, self._tools)


def close_cut_off(session: Session) -> str:
    """After a crash, record the interrupted request with unknown cost and keep the text received. Return a message
    for the user; empty if there was no such request.

    Raises:
        StoreError: it could not be saved.
    """
    if (found := cut_off_request(session.records)) is None:
        return ""
    request, text = found
    called = ModelCalled(
        id=new_id("call"), turn_id=request.turn_id, kind=request.kind, model=request.model, outcome="crashed"
    )
    if not text.strip():
        session.append(called)
        return "The program ended during a request to the model; the cost of that request is unknown."
    message = AssistantMessage(
        id=new_id("msg"), turn_id=request.turn_id, text=text, finish="interrupted", model=request.model
    )
    session.append(called, message)
    return (
        "The program ended while the model was answering; the text received so far is kept, and the cost of that"
        " request is unknown."
    )


class ModelCaller:
    """Calls the model for one session."""

    def __init__(self, session: Session, models: Models, retry: RetryPolicy, spending: BudgetLimits) -> None:
        self._session = session
        self._models = models
        self._retry = retry
        self._spending = spending
        self._unbounded_in = ""
        """The turn in which the user was told that a cost limit cannot be enforced."""
        self._doubted: set[str] = set()
        """Models for which the user was asked whether to continue without known prices."""
        self._was_told_of_thoughts = False

    def unpriced(self) -> str:
        """Return a question for the user, once per model, if unknown prices make a cost limit ineffective."""
        info = self._models.model.info
        if info.name in self._doubted or not self._spending.unbounded(info):
            return ""
        self._doubted.add(info.name)
        return f"{info.name} has no known prices, so the cost limit cannot be enforced."

    async def call(
        self, request: ModelRequest, scope: TurnScope, *, kind: CallKind, step: int
    ) -> tuple[Answer, AssistantMessage | None]:
        """Stream one answer and save it with its calls before returning. A `summary` is not part of the
        conversation, so only its cost is saved. An interrupted or failed call keeps the text received. If the
        model fails permanently, the next fallback is called.

        Raises:
            ModelError: all attempts failed.
            OverBudget: the next attempt might cost more than is left.
        """
        for problem in await self._models.ready():
            scope.notice(problem)
        small = self._small(request) if kind == "summary" else None
        tools, book = frozenset(tool.name for tool in request.tools), partial(self._book, scope)
        while True:
            attempt = ModelCall(self._session, small or self._models.model, kind, scope.turn_id, tools, book)
            info = attempt.model.info
            admitted = self._admit(attempt, request)
            # Only now, after the limits: the cost of a run without a step is known to be 0.
            scope.emit(ev.StepStarted(step=step, model=attempt.name, kind=kind))
            if self._spending.unbounded(info):
                self._say_unbounded(f"{attempt.name} has no known prices", scope)
            try:
                await self._stream(attempt, admitted, partial(self._again, attempt, request), scope)
                return self._finish(attempt, scope)
            except ModelError as error:
                if small is not None:
                    scope.notice(_SMALL_FAILED.format(small.info.name, error))
                    attempt.close(error.kind, usage=error.usage, keep_text=False)
                    small = None
                    continue
                another = self._models.model is not attempt.model  # the user switched models in the meantime
                if not another and (error.retryable or error.kind in _ANOTHER_MAY_HELP):
                    another = self._fall_back(error, attempt, scope)
                attempt.close(error.kind, usage=error.usage, keep_text=not another)
                if not another:
                    raise

    async def _stream(
        self,
        attempt: ModelCall,
        request: ModelRequest,
        again: Callable[[], Awaitable[ModelRequest]],
        scope: TurnScope,
    ) -> None:
        model = self._models.model
        stream = stream_with_retries(
            attempt.model,
            request,
            self._policy(attempt.model),
            again=again,
            given_up=lambda: attempt.model is model and self._models.model is not model,
        )
        try:
            await attempt.begin()
            async with self._watched(attempt, scope), aclosing(stream):
                async for event in stream:
                    if isinstance(event, Retrying):
                        attempt.failed(event.error.kind, pause_s=event.delay_s, usage=event.usage)
                    elif isinstance(event, Adjusted) and event.error is not None:
                        attempt.failed(event.error.kind)
                        await attempt.begin()
                    attempt.feed(event)
                    if attempt.shows or isinstance(event, Retrying | Adjusted):
                        self._forward(event, attempt, scope)
        except (ModelError, OverBudget):
            raise  # ModelError is recorded by the caller; before OverBudget no attempt was begun
        except BaseException:
            attempt.close("interrupted")
            raise

    def _admit(self, attempt: ModelCall, request: ModelRequest) -> ModelRequest:
        info = attempt.model.info
        admitted = self._spending.admit(info, request)
        attempt.input_tokens, attempt.longest = self._spending.size(info, admitted)
        return admitted

    async def _again(self, attempt: ModelCall, request: ModelRequest) -> ModelRequest:
        request = self._admit(attempt, request)
        await attempt.begin()
        return request

    def _small(self, request: ModelRequest) -> Model | None:
        """Return the model for summaries, if there is one whose window fits the request."""
        small = self._models.small
        window = small.info.context_window if small else None
        if small is None or window is None:
            return small
        tokens, _ = self._spending.size(small.info, request)
        return small if tokens + _SUMMARY_TOKENS <= window else None

    def _policy(self, model: Model) -> RetryPolicy:
        if model is self._models.model and not self._models.may_fall_back:
            return self._retry
        return msgspec.structs.replace(
            self._retry,
            attempts=min(self._retry.attempts, _ATTEMPTS_BEFORE_ANOTHER),
            patient_attempts=min(self._retry.patient_attempts, _ATTEMPTS_BEFORE_ANOTHER),
            horizon_s=min(self._retry.horizon_s, _HORIZON_BEFORE_ANOTHER_S),
            park_s=0.0,
        )

    def _book(self, scope: TurnScope, entry: ModelCalled) -> None:
        self._spending.book(entry)
        if entry.cost_usd is None and entry.at_most_usd is None:
            self._say_unbounded("The cost of a call is unknown", scope)

    def _say_unbounded(self, why: str, scope: TurnScope) -> None:
        """Report, once per turn, that a cost limit cannot be enforced."""
        if self._spending.bounded and self._unbounded_in != scope.turn_id:
            self._unbounded_in = scope.turn_id
            scope.notice(f"{why}, so the cost limit cannot be enforced.")

    def _fall_back(self, error: ModelError, attempt: ModelCall, scope: TurnScope) -> bool:
        model = self._models.fall_back()
        if model is None:
            return False
        scope.emit(
            ev.FellBack(model=model.info.name, error=explain(error, attempt.name), discarded_chars=attempt.shown)
        )
        return True

    @asynccontextmanager
    async def _watched(self, attempt: ModelCall, scope: TurnScope) -> AsyncGenerator[None, None]:
        """While inside, save received text every second. Report when no data has arrived for a while, at doubling
        intervals, and when data arrives again."""

        async def watch() -> None:
            tell_at = SILENT_S
            save_at = time.monotonic() + _SAVE_EVERY_S
            while True:
                now = time.monotonic()
                if now >= save_at:
                    await attempt.save_partial()
                    save_at = now + _SAVE_EVERY_S
                silent_s = now - attempt.heard
                if silent_s >= tell_at:
                    tell_at *= 2
                    scope.emit(ev.StreamSilent(silent_s=round(silent_s, 1)))
                elif silent_s < SILENT_S < tell_at:
                    tell_at = SILENT_S
                    scope.emit(ev.StreamSilent(silent_s=0.0))
                await asyncio.sleep(min(_SAVE_EVERY_S, max(0.05, tell_at - silent_s)))

        watcher = asyncio.create_task(watch())
        try:
            yield
        finally:
            watcher.cancel()

    def _finish(self, attempt: ModelCall, scope: TurnScope) -> tuple[Answer, AssistantMessage | None]:
        answer, message = attempt.save()
        if message is not None:
            scope.emit(
                ev.AnswerCompleted(
                    message_id=message.id,
                    text=message.text,
                    finish=message.finish,
                    calls=len(message.calls),
                    usage=answer.usage,
                    cost_usd=attempt.model.info.cost_usd(answer.usage),
                    duration_s=attempt.elapsed_s(),
                    first_token_s=attempt.first_token_s,
                )
            )
        if attempt.shows and (collapse := costs.cache_collapse(self._session.records)):
            scope.notice(collapse)
        return answer, message

    def _forward(self, event: ModelEvent, attempt: ModelCall, scope: TurnScope) -> None:
        match event:
            case TextPiece(text=text):
                attempt.shown += len(text)
                scope.emit(ev.TextDelta(text=text))
            case ReasoningPiece(text=text):
                scope.emit(ev.ReasoningDelta(text=text))
            case TextWasThought(mark=mark):
                scope.emit(ev.TextDelta(text=mark if attempt.has_text else "\n\n"))
                if not (attempt.has_text or self._was_told_of_thoughts):
                    self._was_told_of_thoughts = True
                    scope.notice(_UNPARSED, "info")
            case Adjusted(text=text):
                scope.notice(text, "info")
            case Retrying():
                scope.emit(
                    ev.RetryScheduled(
                        attempt=event.attempt,
                        delay_s=event.delay_s,
                        error=event.error,
                        discarded_chars=attempt.shown,
                        parked=event.parked,
                    )
                )
                attempt.shown = 0
