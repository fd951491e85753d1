"""Approval requests and questions to the user. Each is awaited; losing one counts as a refusal."""

import asyncio
from collections.abc import Sequence
from typing import Literal, TypeVar

import msgspec

from agent_cli.protocol.events import (
    ApprovalItem,
    ApprovalRequested,
    ApprovalResolved,
    QuestionAsked,
    QuestionResolved,
)
from agent_cli.protocol.messages import Message, new_id
from agent_cli.protocol.operations import ApprovalAnswer, Decision
from agent_cli.session.event_bus import TurnScope
from agent_cli.session.placeholders import describe_message

from ..context.token_meter import message_tokens

_T = TypeVar("_T")


GO_ON = "Go on"
STOP = "Stop"
_YES = frozenset({"", "go on", "y", "yes", "ok", "continue"})
_NO = frozenset({"stop", "n", "no", "quit", "/quit", "/stop"})


class UserAnswer(msgspec.Struct, frozen=True):
    """The user's answer."""

    go_on: bool
    guidance: str = ""
    """Words beyond yes and no, for the model."""


class ApprovalRequests:
    """Open requests, by id."""

    def __init__(self, *, interactive: bool) -> None:
        self.interactive = interactive
        """True if a user is present to answer."""
        self._approvals: dict[str, asyncio.Future[tuple[Decision, ...]]] = {}
        self._questions: dict[str, asyncio.Future[str]] = {}
        self._one_at_a_time = asyncio.Lock()
        """Held while the user is asked: sub-agents ask in the same queue."""

    async def ask(self, items: tuple[ApprovalItem, ...], scope: TurnScope) -> dict[str, Decision]:
        """Ask the user to approve calls and return the decisions by call id."""
        request = ApprovalRequested(request_id=new_id("ask"), items=items)
        decisions = await self._answered(self._approvals, request, ApprovalResolved, scope)
        refused = {decision.call_id: decision for decision in decisions if not decision.allow}
        return {decision.call_id: decision for decision in decisions} | refused  # of two, the refusal counts

    async def question(self, text: str, options: tuple[str, ...], scope: TurnScope, *, server: str = "") -> str:
        """Ask the user a question, on behalf of an MCP server if one is named, and return the answer."""
        request = QuestionAsked(request_id=new_id("question"), question=text, options=options, server=server)
        return await self._answered(self._questions, request, QuestionResolved, scope)

    async def choose_message_to_drop(
        self, full: str, largest: Sequence[Message], scope: TurnScope
    ) -> Message | None:
        """Ask which of the largest messages to drop from a conversation that cannot be made to fit otherwise; None
        for none."""
        if not self.interactive or not largest:
            return None
        offered = {f"Drop {describe_message(m)} ({message_tokens(m):,} tokens)": m for m in largest}
        answer = await self.question(f"{full} What should be dropped?", (*offered, STOP), scope)
        return offered.get(answer.strip())

    async def confirm_continue(self, doubt: str, scope: TurnScope, *, otherwise: bool) -> UserAnswer:
        """Ask whether to continue despite a doubt. Without a user, `otherwise` decides, and the doubt is shown if
        the turn continues."""
        if not self.interactive:
            if otherwise:
                scope.notice(doubt)
            return UserAnswer(otherwise)
        said = (await self.question(f"{doubt} Go on?", (GO_ON, STOP), scope)).strip()
        meant = said.lower().rstrip(".!")
        return UserAnswer(meant not in _NO, "" if meant in _NO | _YES else said)

    async def _answered(
        self,
        waiting: "dict[str, asyncio.Future[_T]]",
        request: ApprovalRequested | QuestionAsked,
        resolved: type[ApprovalResolved | QuestionResolved],
        scope: TurnScope,
    ) -> _T:
        """Emit a request and wait for its answer; emit how it ended."""
        async with self._one_at_a_time:
            future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
            waiting[request.request_id] = future
            scope.emit(request)
            outcome: Literal["answered", "cancelled"] = "cancelled"
            try:
                answer = await future
                outcome = "answered"
            finally:
                del waiting[request.request_id]
                scope.emit(resolved(request_id=request.request_id, outcome=outcome))
        return answer

    def answer(self, answer: ApprovalAnswer) -> bool:
        """Deliver decisions. Return False if the request is no longer open."""
        return _resolve(self._approvals.get(answer.request_id), answer.decisions)

    def reply(self, request_id: str, text: str) -> bool:
        """Deliver the answer to a question. Return False if it is no longer open."""
        return _resolve(self._questions.get(request_id), text)


def _resolve(future: "asyncio.Future[_T] | None", value: _T) -> bool:
    if future is None or future.done():
        return False
    future.set_result(value)
    return True
