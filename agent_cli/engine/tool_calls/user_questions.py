"""The person at the terminal, where there is one: asked whether to go on when a turn gives reason to doubt."""

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
    """An answer."""

    go_on: bool
    guidance: str = ""
    """What was said beyond yes and no: words for the model."""


class UserQuestions:
    """Asks on behalf of one turn."""

    def __init__(self, approvals: ApprovalRequests, scope: TurnScope) -> None:
        self._approvals = approvals
        self._scope = scope

    @property
    def is_there(self) -> bool:
        """Whether somebody can be asked."""
        return self._approvals.interactive

    async def drops(self, full: str, largest: Sequence[Message]) -> Message | None:
        """Return which of the largest messages goes from a conversation that nothing else makes fit; None for
        none."""
        if not self.is_there or not largest:
            return None
        offered = {f"Drop {describe_message(m)} ({message_tokens(m):,} tokens)": m for m in largest}
        question = f"{full} What should be dropped?"
        return offered.get((await self._approvals.question(question, (*offered, STOP), self._scope)).strip())

    async def lets_go_on(self, doubt: str, *, otherwise: bool) -> UserAnswer:
        """Ask whether to go on in spite of a doubt. Without a person it is only said, when the turn goes on
        all the same, and `otherwise` decides."""
        if not self.is_there:
            if otherwise:
                self._scope.notice(doubt)
            return UserAnswer(otherwise)
        question = f"{doubt} Go on?"
        said = (await self._approvals.question(question, (GO_ON, STOP), self._scope)).strip()
        meant = said.lower().rstrip(".!")
        return UserAnswer(meant not in _NO, "" if meant in _NO | _YES else said)
