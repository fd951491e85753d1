"""Filter over the events of one answer that turns textual tool calls into calls.

Servers that do not know a model's own call syntax pass it on as text, and the turn would end there. Calls count
only at the very end of an answer that the server reports as finished, and only if it has no native ones. Text is
passed on as it arrives, except for what may be the start of a call. Text that starts like a call and cannot be
parsed becomes a call with its problem, so that the model is told and can try again.
"""

from collections.abc import Iterator, Sequence

from ..types.base import CallPiece, CallStart, Finished, ModelEvent, TextPiece, TextWasThought, ToolSpec
from .forms import Reading, read_calls
from .positions import CallPositions

_STEP = 8
"""Held-back text is parsed again after growing by an eighth."""


class CallFinder:
    """Processes the events of one answer in order."""

    def __init__(self, tools: Sequence[ToolSpec], *, drops_calls: bool = False) -> None:
        """With `drops_calls`, calls are left out: the model was to make none."""
        self._tools = {tool.name: tool for tool in tools}
        self._drops_calls = drops_calls
        self._off = not tools
        self._begin()

    def _begin(self) -> None:
        self._places = CallPositions()
        self._text = ""
        self._sent = 0
        self._candidate: int | None = None
        self._attempt: int | None = None
        """Start of the first unparsable call, or possible call."""
        self._again_at = 0

    def feed(self, event: ModelEvent) -> Iterator[ModelEvent]:
        """Yield the events to pass on."""
        if self._off:
            yield event
        elif isinstance(event, TextPiece):
            self._text += event.text
            self._look(final=False)
            yield from self._release(self._held_from())
        elif isinstance(event, CallStart):
            self._off = True
            yield from self._release(len(self._text))
            yield event
        elif isinstance(event, TextWasThought):
            yield from self._release(len(self._text))
            yield event
            if event.holds_for(self._text):
                self._begin()
        elif isinstance(event, Finished):
            yield from self._finish(event)
        else:
            yield event

    def _finish(self, event: Finished) -> Iterator[ModelEvent]:
        calls, place = self._calls() if event.finish in ("stop", "tool_calls") else ([], 0)
        yield from self._release(place if calls else len(self._text))
        if self._drops_calls:
            calls = []
        for name, piece in calls:
            yield CallStart(piece.index, "", name)
            yield piece
        yield Finished("tool_calls", event.raw) if calls else event

    def _calls(self) -> tuple[list[tuple[str, CallPiece]], int]:
        """Return the calls of the whole answer, and their start."""
        reading = self._look(final=True)
        if reading is not None and self._candidate is not None and reading.calls:
            found = enumerate(reading.calls)
            return [(name, CallPiece(at, arguments)) for at, (name, arguments) in found], self._candidate
        if self._attempt is None or self._drops_calls:
            return [], 0
        from .attempts import is_attempt, read_attempt

        if not is_attempt(self._text[self._attempt :], final=True):
            return [], 0
        return read_attempt(self._text[self._attempt :], self._tools), self._attempt

    def _look(self, *, final: bool) -> Reading | None:
        """Advance through the text to the next place where calls start or may start."""
        while True:
            if self._candidate is None:
                self._candidate = self._places.next(self._text, final=final)
                if self._candidate is None:
                    return None
            elif not final and len(self._text) < self._again_at:
                return None
            place = self._candidate
            alone = self._places.alone(self._text, place)
            reading = read_calls(self._text[place:], self._tools, alone=alone, final=final)
            if reading.alive:
                held = len(self._text) - place
                self._again_at = len(self._text) + held // _STEP
                return reading
            self._places.reject(place)
            self._candidate = None
            from .attempts import opener_of

            if not self._is_attempt() and opener_of(self._text[place : place + 40]):
                self._attempt = place

    def _held_from(self) -> int:
        """Return the start of the held-back text."""
        if self._is_attempt() and self._attempt is not None:
            return self._attempt
        if self._candidate is not None:
            return self._candidate
        return len(self._text) if self._places.hold is None else self._places.hold

    def _is_attempt(self) -> bool:
        """Return True if an unparsable call has started or may have."""
        if (at := self._attempt) is None:
            return False
        from .attempts import is_attempt

        return is_attempt(self._text[at : at + 400], final=False) is not False

    def _release(self, end: int) -> Iterator[ModelEvent]:
        if end > self._sent:
            yield TextPiece(self._text[self._sent : end])
            self._sent = end
