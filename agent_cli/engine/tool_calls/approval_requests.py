"""Approval requests and questions to the user. Each is awaited; losing one counts as a refusal."""

import asyncio
from typing import Literal, TypeVar

from agent_cli.protocol.events import (
    ApprovalItem,
    ApprovalRequested,
    ApprovalResolved,
    QuestionAsked,
    QuestionResolved,
)
from agent_cli.protocol.messages import new_id
from agent_cli.protocol.operations import ApprovalAnswer, Decision
from agent_cli.session.turn_scope import TurnScope

_T = TypeVar("_T")


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
        async with self._one_at_a_time:
            return await self._ask(items, scope)

    async def _ask(self, items: tuple[ApprovalItem, ...], scope: TurnScope) -> dict[str, Decision]:
        request_id = new_id("ask")
        future: asyncio.Future[tuple[Decision, ...]] = asyncio.get_running_loop().create_future()
        self._approvals[request_id] = future
        scope.emit(ApprovalRequested(request_id=request_id, items=items))
        outcome: Literal["answered", "cancelled"] = "cancelled"
        try:
            decisions = await future
            outcome = "answered"
        finally:
            del self._approvals[request_id]
            resolved = ApprovalResolved(request_id=request_id, outcome=outcome)
            scope.emit(resolved)
        refused = {decision.call_id: decision for decision in decisions if not decision.allow}
        return {decision.call_id: decision for decision in decisions} | refused  # of two, the refusal counts

    async def question(self, text: str, options: tuple[str, ...], scope: TurnScope, *, server: str = "") -> str:
        """Ask the user a question, on behalf of an MCP server if one is named, and return the answer."""
        async with self._one_at_a_time:
            return await self._question(text, options, scope, server)

    async def _question(self, text: str, options: tuple[str, ...], scope: TurnScope, server: str) -> str:
        request_id = new_id("question")
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._questions[request_id] = future
        scope.emit(QuestionAsked(request_id=request_id, question=text, options=options, server=server))
        outcome: Literal["answered", "cancelled"] = "cancelled"
        try:
            answer = await future
            outcome = "answered"
        finally:
            del self._questions[request_id]
            scope.emit(QuestionResolved(request_id=request_id, outcome=outcome))
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
