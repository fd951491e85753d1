"""Questions to the user, if one is present: whether to continue when a turn raises doubts."""

from collections.abc import Sequence

import msgspec

from agent_cli.protocol.messages import Message
from agent_cli.session.placeholders import describe_message
from agent_cli.session.turn_scope import TurnScope

from ..context.token_meter import message_tokens
from .approval_requests import ApprovalRequests

GO_ON = "Go on"
STOP = "Stop"
_YES = frozenset({"", "go on", "y", "yes", "ok", "continue"})
_NO = frozenset({"stop", "n", "no", "quit", "/quit", "/stop"})


class UserAnswer(msgspec.Struct, frozen=True):
    """The user's answer."""

    go_on: bool
    guidance: str = ""
    """Words beyond yes and no, for the model."""


class UserQuestions:
    """Asks questions on behalf of one turn."""

    def __init__(self, approvals: ApprovalRequests, scope: TurnScope) -> None:
        self._approvals = approvals
        self._scope = scope

    @property
    def is_interactive(self) -> bool:
        """True if a user can be asked."""
        return self._approvals.interactive

    async def choose_message_to_drop(self, full: str, largest: Sequence[Message]) -> Message | None:
        """Ask which of the largest messages to drop from a conversation that cannot be made to fit otherwise; None
        for none."""
        if not self.is_interactive or not largest:
            return None
        offered = {f"Drop {describe_message(m)} ({message_tokens(m):,} tokens)": m for m in largest}
        question = f"{full} What should be dropped?"
        return offered.get((await self._approvals.question(question, (*offered, STOP), self._scope)).strip())

    async def confirm_continue(self, doubt: str, *, otherwise: bool) -> UserAnswer:
        """Ask whether to continue despite a doubt. Without a user, `otherwise` decides, and the doubt is shown if
        the turn continues."""
        if not self.is_interactive:
            if otherwise:
                self._scope.notice(doubt)
            return UserAnswer(otherwise)
        question = f"{doubt} Go on?"
        said = (await self._approvals.question(question, (GO_ON, STOP), self._scope)).strip()
        meant = said.lower().rstrip(".!")
        return UserAnswer(meant not in _NO, "" if meant in _NO | _YES else said)
