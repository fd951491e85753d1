"""Approval requests and questions of a sub-agent, forwarded with its name to the queue of the session that the
user sees."""

from collections.abc import Callable

import msgspec

from agent_cli.protocol.events import AnyEvent, ApprovalItem, ApprovalRequested, QuestionAsked
from agent_cli.protocol.operations import Decision
from agent_cli.session.turn_scope import TurnScope

from ..tool_calls.approval_requests import ApprovalRequests
from .child import Child


class ChildApprovals(ApprovalRequests):
    """Forwards requests to the parent's queue."""

    def __init__(self, above: ApprovalRequests, child: Child, tell: Callable[[Child, AnyEvent], None]) -> None:
        super().__init__(interactive=above.interactive)
        self._above = above
        self._child = child
        self._tell = tell

    async def ask(self, items: tuple[ApprovalItem, ...], scope: TurnScope) -> dict[str, Decision]:
        self._child.waits(True)
        try:
            return await self._above.ask(items, self._named())
        finally:
            self._child.waits(False)

    async def question(self, text: str, options: tuple[str, ...], scope: TurnScope, *, server: str = "") -> str:
        self._child.waits(True)
        try:
            return await self._above.question(text, options, self._named(), server=server)
        finally:
            self._child.waits(False)

    def _named(self) -> TurnScope:
        """Return a scope that adds the sub-agent's name and task to its questions."""

        def tell(event: AnyEvent) -> None:
            if isinstance(event, ApprovalRequested | QuestionAsked) and not event.agent_name:
                name, task = self._child.plan.name, self._child.task
                event = msgspec.structs.replace(event, agent_name=name, agent_task=task)
            self._tell(self._child, event)

        return TurnScope(tell)
