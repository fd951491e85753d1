"""One model call: the request streamed, forwarded as events, booked in the ledger and saved."""

import time
from contextlib import aclosing
from typing import Protocol

from ..model.assemble import Assembler
from ..model.base import (
    Answer,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    ReasoningPiece,
    Retrying,
    TextPiece,
)
from ..model.retry import RetryPolicy, stream_with_retries
from ..protocol.events import AnswerCompleted, ReasoningDelta, RetryScheduled, StepStarted, TextDelta
from ..protocol.messages import AssistantMessage, Finish, ToolCall, new_id
from ..protocol.records import ModelCalled
from ..protocol.usage import CallKind, Usage
from .bus import EventBus
from .session import Session


class ModelSource(Protocol):
    """The model in use; it can be changed between calls."""

    @property
    def model(self) -> Model: ...


class ModelCaller:
    """Calls the model for one session."""

    def __init__(self, session: Session, bus: EventBus, source: ModelSource, retry: RetryPolicy) -> None:
        self._session = session
        self._bus = bus
        self._source = source
        self._retry = retry

    async def call(
        self, request: ModelRequest, *, kind: CallKind, step: int, turn_id: str, submission_id: str
    ) -> tuple[Answer, AssistantMessage | None]:
        """Stream one answer. It is saved, its calls included, before this returns; a `summary` is not part
        of the conversation, so only its cost is. An interrupted or failed call keeps the text it had.

        Raises:
            ModelError: all attempts failed.
        """
        attempt = _Attempt(self._session, self._source.model, kind, turn_id)
        show = kind != "summary"
        self._bus.emit(StepStarted(step=step, model=attempt.name, kind=kind, submission_id=submission_id))
        try:
            async with aclosing(stream_with_retries(attempt.model, request, self._retry)) as stream:
                async for event in stream:
                    if isinstance(event, Retrying):
                        attempt.failed(event.error.kind)
                    attempt.feed(event)
                    if show or isinstance(event, Retrying):
                        self._forward(event, attempt, submission_id)
        except ModelError as error:
            attempt.close(error.kind, usage=error.usage, keep_text=show)
            raise
        except BaseException:
            attempt.close("interrupted", keep_text=show)
            raise
        return self._finish(attempt, kind, submission_id)

    def _finish(
        self, attempt: "_Attempt", kind: CallKind, submission_id: str
    ) -> tuple[Answer, AssistantMessage | None]:
        answer = attempt.assembler.answer()
        message = attempt.save(answer, with_message=kind != "summary")
        if message is not None:
            self._bus.emit(
                AnswerCompleted(
                    message_id=message.id,
                    text=message.text,
                    finish=message.finish,
                    calls=len(message.calls),
                    usage=answer.usage,
                    cost_usd=attempt.model.info.cost_usd(answer.usage),
                    duration_s=attempt.elapsed_s(),
                    first_token_s=attempt.first_token_s,
                    submission_id=submission_id,
                )
            )
        return answer, message

    def _forward(self, event: ModelEvent, attempt: "_Attempt", submission_id: str) -> None:
        match event:
            case TextPiece(text=text):
                attempt.shown += len(text)
                self._bus.emit(TextDelta(text=text, submission_id=submission_id))
            case ReasoningPiece(text=text):
                self._bus.emit(ReasoningDelta(text=text, submission_id=submission_id))
            case Retrying():
                self._bus.emit(
                    RetryScheduled(
                        attempt=event.attempt,
                        delay_s=event.delay_s,
                        error=event.error,
                        discarded_chars=attempt.shown,
                        submission_id=submission_id,
                    )
                )
                attempt.shown = 0
            case _:
                pass


class _Attempt:
    """The running attempt: what arrived so far, and what it cost."""

    def __init__(self, session: Session, model: Model, kind: CallKind, turn_id: str) -> None:
        self._session = session
        self._kind: CallKind = kind
        self._turn_id = turn_id
        self._started = time.monotonic()
        self.model = model
        self.name = model.info.name
        self.assembler = Assembler()
        self.first_token_s: float | None = None
        self.shown = 0

    def elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def feed(self, event: ModelEvent) -> None:
        if self.first_token_s is None and not isinstance(event, Retrying):
            self.first_token_s = self.elapsed_s()
        self.assembler.feed(event)

    def failed(self, outcome: str) -> None:
        """Book an attempt that will be tried again."""
        self._session.append(self._entry(outcome, self.assembler.answer().usage))
        self._started = time.monotonic()
        self.first_token_s = None

    def close(self, outcome: str, *, usage: Usage | None = None, keep_text: bool) -> None:
        """Book the last attempt, which did not come to its end; keep what it had said."""
        partial = self.assembler.answer()
        entry = self._entry(outcome, usage or partial.usage)
        if keep_text and partial.text.strip():
            self._session.append(entry, self._message(partial.text, (), "interrupted", partial))
        else:
            self._session.append(entry)

    def save(self, answer: Answer, *, with_message: bool) -> AssistantMessage | None:
        """Book a finished attempt and save its answer, calls cut off by the output limit left out."""
        entry = self._entry(answer.finish, answer.usage)
        calls = () if answer.finish in ("length", "content_filter") else answer.calls
        if self._kind == "limit":
            calls = ()
        if not with_message or not (answer.text.strip() or calls):
            self._session.append(entry)
            return None
        message = self._message(answer.text, self._unique(calls), answer.finish, answer)
        self._session.append(entry, message)
        return message

    def _message(self, text: str, calls: tuple[ToolCall, ...], finish: Finish, answer: Answer) -> AssistantMessage:
        return AssistantMessage(
            id=new_id("msg"),
            turn_id=self._turn_id,
            text=text,
            calls=calls,
            finish=finish,
            reasoning=answer.reasoning,
            model=self.name,
        )

    def _entry(self, outcome: str, usage: Usage | None) -> ModelCalled:
        cost = self.model.info.cost_usd(usage)
        if usage is None and self.first_token_s is None and outcome != "interrupted":
            cost = 0.0  # the provider refused or failed before it said anything, so it sold nothing
        return ModelCalled(
            id=new_id("call"),
            turn_id=self._turn_id,
            kind=self._kind,
            model=self.name,
            outcome=outcome,
            usage=usage,
            cost_usd=cost,
            duration_s=round(self.elapsed_s(), 3),
        )

    def _unique(self, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
        """Ids that no call of this session has had before; providers repeat or omit them."""
        used = set(self._session.call_ids)
        unique = []
        for call in calls:
            identifier = call.id if call.id and call.id not in used else new_id("call")
            used.add(identifier)
            unique.append(ToolCall(identifier, call.name, call.arguments, call.signature))
        return tuple(unique)
