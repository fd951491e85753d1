"""Recovery after the provider refused a request: an unacceptable message is replaced by a placeholder; for a
request that is too large, the conversation is compacted, the real window recorded, and unused tools are no longer
offered."""

from typing import TYPE_CHECKING

from agent_cli.model.types.base import ModelError
from agent_cli.protocol.messages import new_id
from agent_cli.protocol.records import Quarantined
from agent_cli.session.event_bus import TurnScope
from agent_cli.session.placeholders import describe_message

if TYPE_CHECKING:
    from .services import SessionServices

MAX_OVERFLOWS = 2


class Recovery:
    """Recovery from refused requests in one turn."""

    def __init__(self, services: "SessionServices", scope: TurnScope) -> None:
        self._session = services.session
        self._compactor = services.compactor
        self._meter = services.meter
        self._offered = services.offered
        self._scope = scope
        self._overflows = 0

    async def helps(self, error: ModelError) -> bool:
        """Change what the next request sends after a refusal. Return False if nothing can be changed. A message is
        replaced once; a request is reduced at most twice."""
        if error.message_id and self._quarantine(error):
            return True
        if error.kind != "context_overflow":
            return False
        self._overflows += 1
        if error.limit_tokens:
            self._meter.learn_window(error.limit_tokens)
        if self._overflows > MAX_OVERFLOWS:
            return False
        smaller = await self._compactor.reduce_refused(self._scope)
        if smaller and self._overflows < MAX_OVERFLOWS:
            return True
        return self.offer_fewer_tools() or smaller

    def offer_fewer_tools(self) -> bool:
        """Stop offering unused tools. Return False if there are none."""
        gone = self._offered.drop_unused()
        if gone:
            self._scope.notice(
                f"The context window is small, so these tools are no longer offered: {', '.join(gone)}."
            )
        return bool(gone)

    def _quarantine(self, error: ModelError) -> bool:
        """Replace a message with a placeholder from now on. Return False if that was already done."""
        records = self._session.records
        if any(isinstance(each, Quarantined) and each.message_id == error.message_id for each in records):
            return False
        message = next((each for each in self._session.visible() if each.id == error.message_id), None)
        if message is None:
            return False
        reason = error.message[:300]
        self._session.append(
            Quarantined(id=new_id("held"), turn_id=self._scope.turn_id, message_id=message.id, reason=reason)
        )
        self._scope.notice(
            f"The provider refuses {describe_message(message)} ({reason}). A placeholder is sent instead."
        )
        return True
