"""The current attempt at a model call: what has arrived, what it cost, and what of it is saved."""

import contextlib
import sys
import time
from collections.abc import Callable

import msgspec

from agent_cli.model.assemble import Assembler
from agent_cli.model.types.base import Adjusted, Alive, Answer, Model, ModelEvent, Retrying
from agent_cli.protocol.messages import AssistantMessage, Finish, ToolCall, new_id
from agent_cli.protocol.records import ModelCalled, PartialAnswer, RequestSent
from agent_cli.protocol.usage import NON_CONVERSATION_KINDS, CallKind, Usage
from agent_cli.session.history import cut_off_request
from agent_cli.session.session import Session
from agent_cli.store.session_file import StoreError

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
        book: Callable[[ModelCalled], None],
    ) -> None:
        """`book` is called with the record of each finished attempt."""
        self._session = session
        self._kind: CallKind = kind
        self._turn_id = turn_id
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
        self.shown = 0
        """Number of characters of text shown so far; a failure makes them void."""

    async def begin(self) -> None:
        """Record that a request is sent, so that a crash does not hide its possible cost."""
        self._saved = 0
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
        if len(text) > self._saved:
            piece = PartialAnswer(id=new_id("part"), turn_id=self._turn_id, text=text[self._saved :])
            with contextlib.suppress(StoreError):
                saved = self._session.save(piece)
                self._saved = len(text)
                await saved

    @property
    def shows(self) -> bool:
        """True if the answer is part of the conversation."""
        return self._kind not in NON_CONVERSATION_KINDS

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
            unique.append(msgspec.structs.replace(call, id=identifier, name=sys.intern(call.name)))
        return tuple(unique)


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
