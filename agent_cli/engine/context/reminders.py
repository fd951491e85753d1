"""What the model is reminded of between two steps: a plan it has stopped keeping, a plan it leaves open, and
background commands that have ended meanwhile; and after an answer that was cut off, or at a limit."""

from agent_cli.protocol.messages import AssistantMessage, ToolResult, UserMessage
from agent_cli.session.session import Session
from agent_cli.tools.shell.background_jobs import Jobs

STALE_AFTER = 10
"""Steps with calls since the plan was written last; the reminder comes again after as many more."""
MAX_UNFINISHED = 2


class Reminders:
    """Decides what to say to the model of one session."""

    def __init__(self, session: Session, jobs: Jobs, *, finish_plan: bool) -> None:
        self._session = session
        self._jobs = jobs
        self._finish_plan = finish_plan
        self._unfinished_left = 0

    def begin_turn(self) -> None:
        """A new input: its model may be sent back to its plan again."""
        self._unfinished_left = MAX_UNFINISHED if self._finish_plan else 0

    def due(self) -> str:
        """Return what to say before the next step; empty when there is nothing."""
        return "\n".join([*self._jobs.take_news(), *self._stale_plan()])

    def unfinished(self) -> str:
        """Return what to say to a model that stops while its plan has open items, a bounded number of times."""
        left = self._open_items()
        if not left or self._unfinished_left == 0:
            return ""
        self._unfinished_left -= 1
        more = f" and {len(left) - 4} more" if len(left) > 4 else ""
        return _UNFINISHED.format(items="; ".join(left[:4]) + more)

    def _open_items(self) -> list[str]:
        return [item.text for item in self._session.view.plan if item.status != "done"]

    def _stale_plan(self) -> list[str]:
        if not self._open_items():
            return []
        steps = 0
        for message in reversed(self._session.visible()):
            if isinstance(message, ToolResult) and message.plan is not None:
                break
            if not steps and isinstance(message, UserMessage) and _STALE_BEGINS in message.text:
                return []  # said already, perhaps before a crash
            steps += isinstance(message, AssistantMessage) and bool(message.calls)
        else:
            return []
        if steps < STALE_AFTER or steps % STALE_AFTER:
            return []
        return [_STALE.format(steps=steps, items="; ".join(self._open_items()[:4]))]


_STALE_BEGINS = "The plan has not been updated for"
_STALE = (
    _STALE_BEGINS + " {steps} steps; open in it: {items}. Mark what is done, or change it; an "
    "empty plan is fine when it no longer applies."
)
_UNFINISHED = (
    "Your plan still has open items: {items}. Continue with them, or update the plan and say why they are dropped."
)
LOST_CALLS = (
    "Your last answer was cut off ({why}), so its calls ({lost}) were not run. Send them again in "
    "smaller pieces: fewer calls at once, large files in several edits."
)
CONTINUE = (
    "Your last answer was cut off at the output limit. Continue exactly where it stopped, without repeating."
)
CLOSING = (
    "A limit of this turn has been reached, so this is your last message and you cannot call tools. Say what is "
    "done and checked, what is still open, and what the next step would be."
)
