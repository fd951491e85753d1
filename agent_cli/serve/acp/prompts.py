"""The open prompts of a client, and the events that end them."""

import asyncio
from collections.abc import Iterator

from agent_cli.protocol import events as ev
from agent_cli.protocol.stop_reason import StopReason

from ..jsonrpc.messages import INTERNAL_ERROR, RpcError
from .wire import AUTH_REQUIRED, failure

CANCELLED = "cancelled"
_ENDS: dict[StopReason, str] = {
    "length_limit": "max_tokens",
    "context_limit": "max_tokens",
    "turn_limit": "max_turn_requests",
    "cost_limit": "max_turn_requests",
    "time_limit": "max_turn_requests",
    "content_filter": "refusal",
    "interrupted": CANCELLED,
    "terminated": CANCELLED,
    "abandoned": CANCELLED,
}
"""The protocol's stop reasons for ours, other than `end_turn`."""


class OpenPrompt:
    """A prompt that is not answered yet."""

    def __init__(self) -> None:
        """Create a prompt without submissions."""
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The stop reason, or an error."""
        self.waits: set[str] = set()
        """Submissions without a terminal event."""
        self.is_handed_in = False
        """True if all of its submissions have been added to `waits`."""
        self.is_cancelled = False
        self.last: ev.AnyEvent | None = None
        """The last terminal event."""
        self.guidance: str | None = None
        """The text of guidance for the running turn; None if the prompt is not guidance."""
        self.guided = ""
        """The submission of the turn that the guidance joins."""

    def end(self, reason: str) -> None:
        """Answer the prompt, unless it is answered."""
        if not self.answer.done():
            self.answer.set_result(CANCELLED if self.is_cancelled else reason)

    def fail(self, error: RpcError) -> None:
        """Answer the prompt with an error, or with `cancelled` if it was cancelled."""
        if self.is_cancelled:
            self.end(CANCELLED)
        elif not self.answer.done():
            self.answer.set_exception(error)

    def settle(self) -> None:
        """Answer the prompt once all its submissions have ended."""
        if not self.is_handed_in or self.waits or self.guidance is not None:
            return
        match self.last:
            case ev.TurnFailed() as event:
                self.fail(_failure(event))
            case ev.TurnCompleted(stop_reason=reason) | ev.TurnAborted(stop_reason=reason):
                self.end(_ENDS.get(reason, "end_turn"))
            case ev.OperationCompleted(operation="TakeBack"):
                self.end(CANCELLED)
            case _:
                self.end("end_turn")


class OpenPrompts:
    """Tracks the events of a session for the open prompts."""

    def __init__(self) -> None:
        """Create an empty list of prompts."""
        self._open: list[OpenPrompt] = []
        self.turn = ""
        """The submission of the running turn; empty for none."""

    def __iter__(self) -> Iterator[OpenPrompt]:
        """Yield the open prompts, oldest first."""
        return iter([each for each in self._open if not each.answer.done()])

    def begin(self) -> OpenPrompt:
        """Add and return a new prompt."""
        prompt = OpenPrompt()
        self._open.append(prompt)
        prompt.answer.add_done_callback(lambda _: self._open.remove(prompt))
        return prompt

    def follow(self, event: ev.AnyEvent) -> None:
        """Process an event, whose error includes its advice as text."""
        match event:
            case ev.TurnStarted():
                self.turn = event.submission_id
                self._begun(event)
            case ev.Steered(text=text):
                guiding = next((each for each in self._guiding() if each.guidance == text), None)
                if guiding is not None:  # the turn that reads the guidance answers it
                    guiding.guidance, guiding.waits = None, {guiding.guided}
            case ev.OperationCompleted(operation="Steer"):
                self._taken(event.submission_id)
            case ev.SessionClosed(error=error):
                why = error.message if error else "The session was closed."
                for prompt in list(self._open):
                    prompt.fail(failure(INTERNAL_ERROR, why))
            case _ if isinstance(event, ev.TERMINAL):
                self._ended(event)

    def _guiding(self) -> list[OpenPrompt]:
        return [each for each in self._open if each.guidance is not None]

    def _begun(self, event: ev.TurnStarted) -> None:
        """Bind guidance that arrived too late for its turn to the turn that it started."""
        for prompt in self._guiding():
            if not prompt.guided and prompt.guidance == event.text:
                prompt.guidance, prompt.waits = None, {event.submission_id}
                return

    def _taken(self, submission: str) -> None:
        for prompt in self._open:
            if submission in prompt.waits:
                prompt.waits.discard(submission)
                prompt.guided = self.turn

    def _ended(self, event: ev.AnyEvent) -> None:
        if event.submission_id == self.turn:
            self.turn = ""
        for prompt in list(self._open):
            if event.submission_id in prompt.waits:
                prompt.waits.discard(event.submission_id)
                prompt.last, prompt.guidance = event, None
                prompt.settle()
            elif prompt.guidance is not None and prompt.guided == event.submission_id:
                prompt.guided = ""
                if isinstance(event, ev.TurnAborted):
                    prompt.last, prompt.guidance = event, None
                    prompt.settle()


def _failure(event: ev.TurnFailed) -> RpcError:
    code = AUTH_REQUIRED if event.stop_reason == "auth_error" else INTERNAL_ERROR
    words = " ".join(filter(None, (event.error.message, event.error.hint)))
    return failure(code, words, kind=event.error.kind, stopReason=event.stop_reason)
