"""Conversations of a review: sessions of the engine that only read, in plan mode, and answer with data."""

import contextlib
from collections.abc import AsyncIterator, Callable
from copy import copy
from typing import Any

from agent_cli.bootstrap.answers.answer_schema import AnswerSchema
from agent_cli.bootstrap.compose import open_session
from agent_cli.bootstrap.session_builder import NON_INTERACTIVE, OpenSession
from agent_cli.bootstrap.setup import Setup, with_values
from agent_cli.protocol import events as ev
from agent_cli.protocol.operations import UserInput
from agent_cli.protocol.run_outcome import RunOutcome, known_cost
from agent_cli.review.passes import Conversation, Unanswered
from agent_cli.ui.headless.runner import refusal
from agent_cli.ui.text.lines import one_line

TOOLS = "read_file,list_dir,glob,grep,repo_map,shell"
"""Tools offered to a reviewer. Plan mode lets only those commands run that read."""
_LOST = "The engine ended without an answer."


class ReviewSessions:
    """Opens the sessions of a review.

    Attributes:
        session_id: id of the first session, if it is saved.
        model: the model that answers.
        cost_usd: the total cost, as far as prices are known; None if no price is.
    """

    def __init__(self, setup: Setup, say: Callable[[str], None]) -> None:
        """`say` receives retries and warnings."""
        self._setup = copy(setup)
        self._setup.purpose = "review"
        self._unsaved = copy(self._setup)
        self._unsaved.chosen = with_values(setup.chosen, no_session=True)
        self._say = say
        self._has_begun = False
        self.session_id = ""
        self.model = ""
        self.cost_usd: float | None = None

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Conversation]:
        """Open a session, which ends with the context. Only the first session of a review is saved.

        Raises:
            NoModel, MissingKey, UsageError, StoreError: no session can be opened.
        """
        is_first, self._has_begun = not self._has_begun, True
        opened = await open_session(self._setup if is_first else self._unsaved, NON_INTERACTIVE)
        now = opened.agent.snapshot()
        if is_first:
            self.model = now.model
            self.session_id = now.session_id if now.session_path else ""
            for note in opened.notes:
                self._say(note)
        async with opened.running():
            try:
                yield _SessionConversation(opened, self._say)
            finally:
                spent = known_cost(opened.agent.snapshot().totals)
                if spent is not None:
                    self.cost_usd = (self.cost_usd or 0.0) + spent


class _SessionConversation(Conversation):
    def __init__(self, opened: OpenSession, say: Callable[[str], None]) -> None:
        self._client = opened.agent
        self._say = say

    async def ask(self, prompt: str, schema: dict[str, Any]) -> Any:
        shape = AnswerSchema(schema, "review")
        outcome = RunOutcome(self._client.snapshot().totals)
        text = f"{prompt}\n\n{shape.request}"
        await self._turn(UserInput(text, is_data=True, answer_schema=shape.definition), outcome)
        if outcome.completed and outcome.needs_correction(shape.read):
            await self._turn(outcome.correction(shape.definition), outcome)
            if outcome.completed and outcome.needs_correction(shape.read):
                raise Unanswered(
                    "no_answer", f"the model did not answer in the required format: {one_line(outcome.unfit)}"
                )
        if not outcome.completed or outcome.unfit:  # a turn that reached a limit may end with text
            why = outcome.error.message if outcome.error else outcome.stop_reason.replace("_", " ")
            raise Unanswered(outcome.stop_reason, one_line(why, 500))
        return outcome.structured

    async def _turn(self, prompt: UserInput, outcome: RunOutcome) -> None:
        """Run a prompt to its end."""
        submission = await self._client.submit(prompt)
        async for event in self._client.events():
            outcome.note(event, submission)
            match event:
                case ev.ApprovalRequested() | ev.QuestionAsked():
                    await self._client.submit(refusal(event))
                case ev.RetryScheduled():
                    self._say(f"the provider is asked again: {one_line(event.error.message)}")
                case ev.Notice() if event.level != "info":
                    self._say(f"{event.level}: {one_line(event.text, 500)}")
            if isinstance(event, ev.TERMINAL) and event.submission_id == submission:
                return
        outcome.failed("internal_error", ev.ErrorInfo("internal_error", _LOST))
        outcome.completed = False
