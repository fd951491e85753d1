"""Shared parts of the event stream readers: frames as JSON, start and end of a response, texts and characters that
arrive in pieces."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import msgspec

from agent_cli.protocol.json_text import decode_lenient_json
from agent_cli.protocol.messages import Finish
from agent_cli.protocol.usage import Usage

from ..types.base import Finished, ModelError, ModelEvent
from ..types.classify import classify
from ..types.json import Json, join_surrogates, text_of
from .sse import Frame, SseParser
from .think_tags import LoneClose

_MOST_TOKENS = 1_000_000_000


class Chunks:
    """Splits bytes into the JSON objects of an event stream."""

    def __init__(self) -> None:
        self._sse = SseParser()
        self.done = False
        """True after `[DONE]`."""

    def feed(self, data: bytes) -> Iterator[Json]:
        """Yield the objects completed by these bytes, each with a `type`: its own or the event's name.

        Raises:
            ModelError: `malformed`.
        """
        return self._objects(self._sse.feed(data))

    def flush(self) -> Iterator[Json]:
        """Yield the object still incomplete when the stream ended.

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
            value = streamed_json(text)
            if frame.event == "error":
                yield _error(value)
            elif isinstance(value, dict):
                value.setdefault("type", frame.event)
                yield value


def _error(value: Any) -> Json:
    """Return the data of an `error` event as an error object."""
    if isinstance(value, dict) and (value.get("type") == "error" or "error" in value):
        return value | {"type": "error"}
    return {"type": "error", "error": value}


class EventStream(ABC):
    """Parser for one response: feed it bytes, then call `end`. Each format interprets the objects. No I/O, so that
    every odd stream can be a test."""

    end_word = "a finish reason"
    """The format's name for the reason of an end, with its article."""

    def __init__(self, provider: str) -> None:
        """Create a parser. `provider` is the prefix with which reasoning is labelled."""
        self._provider = provider
        self._chunks = Chunks()
        self._calls = 0
        """Number of calls started so far."""
        self._finish: Finish = "unknown"
        self._raw_finish = ""
        self.done_suffices = False
        """True if `[DONE]` ends an answer without a reason, for servers that never send one."""
        self.lone_close: LoneClose | None = None
        """Looks for reasoning in the text, of a server that may have no parser for it; None if there is other
        reasoning."""
        self._refused = False
        self._over = False
        """True after an event said that nothing follows."""
        self.usage: Usage | None = None

    @property
    def done(self) -> bool:
        """True after the server said that nothing follows."""
        return self._over or self._chunks.done

    @property
    def finished(self) -> bool:
        """True after the server gave the reason for the end; its usage may still follow."""
        return bool(self._raw_finish)

    def feed(self, data: bytes) -> Iterator[ModelEvent]:
        """Yield the events completed by these bytes.

        Raises:
            ModelError: the stream reports an error, or is malformed.
        """
        for chunk in self._chunks.feed(data):
            yield from self.chunk(chunk)

    def whole(self, data: bytes) -> Iterator[ModelEvent]:
        """Yield the events of a response that is one JSON object instead of a stream; call `end` afterwards.

        Raises:
            ModelError: it is an error, or not an answer.
        """
        answer = body_of(data)
        if isinstance(answer, list) and answer:
            answer = answer[0]
        yield from self._answer(answer)

    def end(self) -> Iterator[ModelEvent]:
        """Yield the last events when no more bytes arrive.

        Raises:
            ModelError: `truncated` if the server never reported the end of the answer.
        """
        try:
            for chunk in self._chunks.flush():
                yield from self.chunk(chunk)
        except ModelError as error:
            if error.kind == "malformed" and not self.finished:
                raise ModelError("truncated", "the answer broke off within an event", usage=self.usage) from error
            if not self.finished:  # otherwise nothing that was cut off is needed
                raise
        yield from self._unsaid()
        if not self.finished and self.done_suffices and self.done:
            self._finish, self._raw_finish = "stop", "[DONE]"
        if not self.finished:
            raise ModelError("truncated", f"the answer stopped without {self.end_word}", usage=self.usage)
        if self._refused:
            yield Finished("content_filter", "refusal")
        else:  # some servers report a plain end for an answer with calls
            called = self._finish == "stop" and self._calls > 0
            yield Finished("tool_calls" if called else self._finish, join_surrogates(self._raw_finish))

    @abstractmethod
    def chunk(self, chunk: Json) -> Iterator[ModelEvent]:
        """Yield the events of one decoded object.

        Raises:
            ModelError: it reports an error.
        """

    def _answer(self, answer: Any) -> Iterator[ModelEvent]:
        """Yield the events of a whole response; some formats write it like a part of one."""
        yield from self.chunk(answer)

    def _unsaid(self) -> Iterator[ModelEvent]:
        """Yield the remaining events when no more objects arrive."""
        return iter(())

    def _failed(self, body: Any, status: int | None = None) -> ModelError:
        error = classify(status, body)
        error.usage = self.usage
        return error


class SurrogateJoiner:
    """Joins surrogate halves of a character that arrive in different pieces."""

    def __init__(self) -> None:
        self._half = ""

    def join(self, text: str) -> str:
        """Return the text that is complete so far."""
        if text.isascii() and not self._half:
            return text
        text = self._half + text
        self._half = text[-1] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return join_surrogates(text.removesuffix(self._half))


class TextBuffer:
    """A text that arrives in pieces. Adding a piece costs no more than its own length, however long the text
    is."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._joiner = SurrogateJoiner()
        self.last = ""
        """Its last character that is not white space."""

    def __bool__(self) -> bool:
        return self._length > 0

    def __str__(self) -> str:
        """Return the text without lone surrogates."""
        return join_surrogates("".join(self._parts))

    def add(self, text: str) -> str:
        """Add a piece; return the text that can be passed on now."""
        if not text:
            return ""
        self._parts.append(text)
        self._length += len(text)
        self.last = text.rstrip()[-1:] or self.last
        return self._joiner.join(text)

    def beyond(self, whole: str) -> str:
        """Return what a whole text adds to the received pieces; empty if they disagree."""
        if len(whole) <= self._length:
            return ""
        return whole[self._length :] if whole.startswith("".join(self._parts)) else ""


def streamed_json(data: bytes) -> Any:
    """Decode JSON leniently.

    Raises:
        ModelError: `malformed`.
    """
    try:
        return decode_lenient_json(data)
    except msgspec.DecodeError as error:
        shown = data[:200].decode("utf-8", "replace")
        raise ModelError("malformed", f"not JSON in the stream: {shown}") from error


def body_of(data: bytes) -> Any:
    """Decode a whole response: JSON, also as the first event of a stream, or text if it is neither."""
    with contextlib.suppress(ModelError):
        return streamed_json(data)
    for frame in SseParser().feed(data + b"\n\n"):
        with contextlib.suppress(ModelError):
            return streamed_json(frame.data)
    return data.decode("utf-8", "replace")


def word_of(value: Any) -> str:
    """Return a name, an id or a signature, which are never split, as encodable text."""
    return join_surrogates(text_of(value))


def usage_of(sent: Any, answered: Any, read: int | None, written: int | None, reasoning: Any) -> Usage:
    """Return token counts as reported; `sent` includes the tokens read from and written to the cache."""
    total = count_of(sent)
    return Usage(
        input=None if total is None else max(0, total - (read or 0) - (written or 0)),
        output=count_of(answered),
        cache_read=read,
        cache_write=written,
        reasoning=count_of(reasoning),
    )


def count_of(value: Any) -> int | None:
    """Return a field that should be a token count; None if it is not, or is implausible."""
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None
