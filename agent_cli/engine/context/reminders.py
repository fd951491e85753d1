"""Reminders to the model between two steps: a plan that is no longer updated or has open items, background
commands that have ended; also the texts after a cut-off answer and at a limit."""

from agent_cli.protocol.messages import AssistantMessage, ToolResult, UserMessage
from agent_cli.session.session import Session
from agent_cli.tools.shell.background_jobs import Jobs

STALE_AFTER = 10
"""Steps with calls since the last plan update; the reminder is repeated after as many more."""
MAX_UNFINISHED = 2


class Reminders:
    """Chooses the reminders for the model in one session."""

    def __init__(self, session: Session, jobs: Jobs, *, finish_plan: bool) -> None:
        self._session = session
        self._jobs = jobs
        self._finish_plan = finish_plan
        self._unfinished_left = 0

    def begin_turn(self) -> None:
        """Start a turn: allow reminders of unfinished items again."""
        self._unfinished_left = MAX_UNFINISHED if self._finish_plan else 0

    def due(self) -> str:
        """Return the reminders before the next step; empty if there are none."""
        return "\n".join([*self._jobs.take_news(), *self._stale_plan()])

    def unfinished(self) -> str:
        """Return a reminder for a model that stops while its plan has open items, a bounded number of times."""
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
                return []  # already reminded, perhaps before a crash
            steps += isinstance(message, AssistantMessage) and bool(message.calls)
        else:
            return []
        if steps < STALE_AFTER or steps % STALE_AFTER:
            return []
        return [_STALE.format(steps=steps, items="; ".join(self._open_items()[:4]))]


_STALE_BEGINS = "The plan has not been updated for"
_STALE = (
    _STALE_BEGINS + " {steps} steps; open items: {items}. Mark what is done, or change it; "
    "send an empty plan if it no longer applies."
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
