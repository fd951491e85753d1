"""Recovery after the provider refused a request: an unacceptable message is replaced by a placeholder; for a
request that is too large, the largest images are left out or the conversation is compacted, the real window
recorded, and unused tools are no longer offered."""

from typing import TYPE_CHECKING

from agent_cli.model.types.base import ModelError
from agent_cli.protocol.messages import AssistantMessage, ToolResult, UserMessage, new_id
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
        replaced once; a request without images is reduced at most twice."""
        if error.message_id and self._quarantine(error):
            return True
        if error.kind == "too_large" and self._leave_out_images(error):
            return True
        if error.kind not in ("context_overflow", "too_large"):
            return False
        self._overflows += 1
        if error.limit_tokens:
            self._meter.learn_window(error.limit_tokens)
        if self._overflows > MAX_OVERFLOWS:
            return False
        smaller = await self._compactor.reduce_refused(self._scope)
        if error.kind == "too_large" or (smaller and self._overflows < MAX_OVERFLOWS):
            return smaller
        return self.offer_fewer_tools() or smaller

    def offer_fewer_tools(self) -> bool:
        """Stop offering unused tools. Return False if there are none."""
        gone = self._offered.drop_unused()
        if gone:
            self._scope.notice(
                f"The context window is small, so these tools are no longer offered: {', '.join(gone)}."
            )
        return bool(gone)

    def _leave_out_images(self, error: ModelError) -> bool:
        """Leave out the images of the message that has the most data, from now on. Return False if there are
        none."""
        messages = [each for each in self._session.visible() if not isinstance(each, AssistantMessage)]
        largest = max(messages, key=_image_chars)
        if not largest.images:
            return False
        self._session.append(
            Quarantined(
                id=new_id("held"),
                turn_id=self._scope.turn_id,
                message_id=largest.id,
                reason="the request would be too large",
                images_only=True,
            )
        )
        self._scope.notice(
            f"The request is too large for the provider ({error.message[:300]}). The images of "
            f"{describe_message(largest)} are left out from now on."
        )
        return True

    def _quarantine(self, error: ModelError) -> bool:
        """Replace a message with a placeholder from now on. Return False if that was already done."""
        held = [each for each in self._session.records if isinstance(each, Quarantined) and not each.images_only]
        if any(each.message_id == error.message_id for each in held):
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


def _image_chars(message: UserMessage | ToolResult) -> int:
    return sum(len(image.data) for image in message.images)
