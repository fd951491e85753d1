"""What the readers of event streams share: frames as JSON, the beginning and end of every answer, texts and
characters that come in pieces."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import msgspec

from agent_cli.protocol.messages import Finish
from agent_cli.protocol.usage import Usage

from ..types.base import Finished, ModelError, ModelEvent
from ..types.classify import classify
from ..types.json import Json, join_surrogates, text_of
from .sse import Frame, SseParser

_MOST_TOKENS = 1_000_000_000


class Chunks:
    """Cuts bytes into the JSON objects of an event stream."""

    def __init__(self) -> None:
        self._sse = SseParser()
        self.done = False
        """A `[DONE]` came."""

    def feed(self, data: bytes) -> Iterator[Json]:
        """Return the objects that these bytes complete, each with a `type`: its own or its event's name.

        Raises:
            ModelError: `malformed`.
        """
        return self._objects(self._sse.feed(data))

    def flush(self) -> Iterator[Json]:
        """Return the object that was still open when the stream ended.

        Raises:
            ModelError: `malformed`.
        """
        return self._objects(self._sse.flush())

    def _objects(self, frames: list[Frame]) -> Iterator[Json]:
        for frame in frames:
            text = frame.data.strip()
            self.done = self.done or text == b"[DONE]"
            if self.done or not text:
                continue
            value = decode_json(text)
            if frame.event == "error":
                yield _error(value)
            elif isinstance(value, dict):
                value.setdefault("type", frame.event)
                yield value


def _error(value: Any) -> Json:
    """Return what an event named `error` holds, as an object that says so."""
    if isinstance(value, dict) and (value.get("type") == "error" or "error" in value):
        return value | {"type": "error"}
    return {"type": "error", "error": value}


class EventStream(ABC):
    """Understands one answer: feed it bytes, then call `end`. What its objects mean is up to each format. No
    I/O, so that every odd stream is a test."""

    end_word = "a finish reason"
    """How the format calls the reason of an end, with its article."""

    def __init__(self, provider: str) -> None:
        """`provider` is the prefix that reasoning is labelled with."""
        self._provider = provider
        self._chunks = Chunks()
        self._calls = 0
        """Calls begun so far."""
        self._finish: Finish = "unknown"
        self._raw_finish = ""
        self._refused = False
        self._over = False
        """An event said that nothing follows."""
        self.usage: Usage | None = None

    @property
    def done(self) -> bool:
        """The server said that nothing follows."""
        return self._over or self._chunks.done

    @property
    def finished(self) -> bool:
        """The server said why the answer ended; its usage may still follow."""
        return bool(self._raw_finish)

    def feed(self, data: bytes) -> Iterator[ModelEvent]:
        """Yield the events that these bytes complete.

        Raises:
            ModelError: the stream reports an error, or is malformed.
        """
        for chunk in self._chunks.feed(data):
            yield from self.chunk(chunk)

    def whole(self, data: bytes) -> Iterator[ModelEvent]:
        """Yield the events of an answer that is one JSON object instead of a stream; `end` follows.

        Raises:
            ModelError: it is an error, or no answer at all.
        """
        answer = body_of(data)
        if isinstance(answer, list) and answer:
            answer = answer[0]
        yield from self._answer(answer)

    def end(self) -> Iterator[ModelEvent]:
        """Yield the last events, when no more bytes come.

        Raises:
            ModelError: `truncated` when the server never said that the answer is over.
        """
        try:
            for chunk in self._chunks.flush():
                yield from self.chunk(chunk)
        except ModelError:
            if not self.finished:  # else what was cut off is not missed
                raise
        yield from self._unsaid()
        if not self.finished:
            raise ModelError("truncated", f"the answer stopped without {self.end_word}", usage=self.usage)
        if self._refused:
            yield Finished("content_filter", "refusal")
        else:  # servers have been seen to end an answer with calls as any other
            called = self._finish == "stop" and self._calls > 0
            yield Finished("tool_calls" if called else self._finish, join_surrogates(self._raw_finish))

    @abstractmethod
    def chunk(self, chunk: Json) -> Iterator[ModelEvent]:
        """Yield the events of one decoded object.

        Raises:
            ModelError: it reports an error.
        """

    def _answer(self, answer: Any) -> Iterator[ModelEvent]:
        """Yield the events of a whole answer, which some formats write as they write a part of one."""
        yield from self.chunk(answer)

    def _unsaid(self) -> Iterator[ModelEvent]:
        """Yield what is left to say when no more objects come."""
        return iter(())

    def _failed(self, body: Any, status: int | None = None) -> ModelError:
        error = classify(status, body)
        error.usage = self.usage
        return error


class SurrogateJoiner:
    """Puts the halves of a character together that came in different pieces."""

    def __init__(self) -> None:
        self._half = ""

    def join(self, text: str) -> str:
        """Return the text that is whole by now."""
        if text.isascii() and not self._half:
            return text
        text = self._half + text
        self._half = text[-1] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return join_surrogates(text.removesuffix(self._half))


class TextBuffer:
    """A text that comes in pieces. Adding one costs no more than its own length, however long the text is."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._joiner = SurrogateJoiner()
        self.last = ""
        """Its last character that is no white space."""

    def __bool__(self) -> bool:
        return self._length > 0

    def __str__(self) -> str:
        """Return the text, without lone halves of characters."""
        return join_surrogates("".join(self._parts))

    def add(self, text: str) -> str:
        """Take the next piece; what can be passed on by now is returned."""
        if not text:
            return ""
        self._parts.append(text)
        self._length += len(text)
        self.last = text.rstrip()[-1:] or self.last
        return self._joiner.join(text)

    def beyond(self, whole: str) -> str:
        """Return what a whole text has beyond what came in pieces; nothing when they disagree."""
        if len(whole) <= self._length:
            return ""
        return whole[self._length :] if whole.startswith("".join(self._parts)) else ""


def decode_json(data: bytes) -> Any:
    """JSON, read leniently.

    Raises:
        ModelError: `malformed`.
    """
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        pass
    try:
        import json

        return json.loads(data)  # takes what msgspec does not: NaN, halves of a surrogate pair
    except (ValueError, RecursionError) as error:
        shown = data[:200].decode("utf-8", "replace")
        raise ModelError("malformed", f"not JSON in the stream: {shown}") from error


def body_of(data: bytes) -> Any:
    """Return an answer that came whole: JSON, or text when it is none."""
    try:
        return decode_json(data)
    except ModelError:
        return data.decode("utf-8", "replace")


def word_of(value: Any) -> str:
    """Return a name, an id or a signature, which come whole: as text that can be written."""
    return join_surrogates(text_of(value))


def count_of(value: Any) -> int | None:
    """Return a field that should be a number of tokens; None when it is none, or none that can be true."""
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None
