"""The structured answer while it streams: incomplete JSON, parsed as far as it goes."""

import re
import time
from collections.abc import Callable
from typing import Any

import msgspec

from agent_cli.protocol import events as ev
from agent_cli.protocol.json_text import decode_json

_EVERY_S = 0.1
_TOKEN = re.compile(r'\s+|[{}\[\],:]|"[^"\\]*(?:\\.[^"\\]*)*"|[^\s{}\[\],:"]+', re.DOTALL)
_BEGUN = re.compile(r'"[^"\\]*(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*)*', re.DOTALL)
"""The beginning of a string, up to an incomplete escape."""
_HALF_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")
_OPENING = re.compile(r"\s*(?:```\w*\s*\n\s*)?(?=[{\[])")
_CLOSING = {"{": "}", "[": "]"}


class PartialOutput(ev.Event, frozen=True, kw_only=True, tag="partial_output"):
    """The answer so far as data, if a schema was requested. It is incomplete and not validated."""

    value: Any
    """An object or a list with what has arrived of it."""


class PartialAnswer:
    """Follows the events of a turn and returns the growing answer a few times a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns the time in seconds."""
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._pieces: list[str] = []
        self._json = PartialJson()
        self._shown: Any = None
        self._due = 0.0

    def note(self, event: ev.AnyEvent) -> PartialOutput | None:
        """Process an event and return the event to emit after it, if any."""
        match event:
            case ev.StepStarted() | ev.RetryScheduled() | ev.FellBack():
                self._begin()
            case ev.TextDelta(text=text):
                self._pieces.append(text)
                if self._clock() >= self._due:
                    return self._changed(event)
            case ev.AnswerCompleted():
                return self._changed(event)
        return None

    def _changed(self, event: ev.AnyEvent) -> PartialOutput | None:
        value = self._json.feed("".join(self._pieces))
        self._pieces.clear()
        if value is None or value == self._shown:
            return None
        self._shown, self._due = value, self._clock() + _EVERY_S
        return PartialOutput(value=value, seq=event.seq, submission_id=event.submission_id, time=event.time)


class PartialJson:
    """JSON text that arrives in pieces. Each piece is scanned once, except for an unfinished string."""

    def __init__(self) -> None:
        self._text = ""
        self._at = -1
        """Position up to which the text is scanned; -1 before the first bracket."""
        self._open: list[str] = []
        """Closing brackets for the open values, innermost last."""
        self._wants_key = False
        self._whole_end = 0
        """End of the last complete value; the brackets open now were already open there."""

    def feed(self, piece: str) -> Any:
        """Return the value as far as it has arrived; None if it has not begun or the text is not JSON."""
        self._text += piece
        if self._at < 0:
            if (found := _OPENING.match(self._text)) is None:
                return None
            self._text, self._at = self._text[found.end() :], 0
        while (self._open or not self._at) and (found := _TOKEN.match(self._text, self._at)):
            token = found[0]
            if found.end() == len(self._text) and token[0] not in '{}[],:"':
                break  # a number or a word may continue
            self._at = found.end()
            self._take(token)
        try:
            return decode_json(self._begun_string() or self._text[: self._whole_end] + self._closing())
        except msgspec.DecodeError:
            return None

    def _take(self, token: str) -> None:
        if token.isspace():
            return
        if token in "{[":
            self._open.append(_CLOSING[token])
            self._wants_key = token == "{"
        elif token == ":":
            self._wants_key = False
            return
        elif token == ",":
            self._wants_key = self._open[-1] == "}"
            return
        elif token in "}]":
            self._open.pop()
            self._wants_key = False
        elif self._wants_key:
            return
        self._whole_end = self._at

    def _begun_string(self) -> str:
        """Return JSON closed after the unfinished string; empty if no string has begun."""
        found = None if self._wants_key or not self._open else _BEGUN.match(self._text, self._at)
        if found is None:
            return ""
        return f'{self._text[: self._at]}{_HALF_PAIR.sub("", found[0])}"{self._closing()}'

    def _closing(self) -> str:
        return "".join(reversed(self._open))
