"""From the bytes of a Chat Completions answer to model events. No I/O, so that every odd stream is a test.

Servers agree on little beyond `choices[0].delta`; what they are known to send is understood, and what
cannot be understood is an error, never a shorter answer.
"""

from collections.abc import Iterator
from typing import Any

from ..protocol.messages import Finish, Reasoning
from ..protocol.usage import Usage
from .base import (
    ErrorKind,
    Finished,
    ModelError,
    ModelEvent,
    ReasoningDone,
    ReasoningPiece,
    TextPiece,
    UsageReport,
)
from .classify import classify
from .dialect import Json
from .sse import SseParser
from .stream_json import Mender, body_of, count_of, decoded, object_of
from .surrogates import mended
from .tool_calls import CallSorter

_FINISHES: dict[str, Finish] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
    "prohibited_content": "content_filter",
    "recitation": "content_filter",
}
_FAILED_FINISHES: dict[str, ErrorKind] = {"error": "server", "insufficient_system_resource": "overloaded"}


class ChatStream:
    """Understands one answer: feed it bytes, then call `end`."""

    def __init__(self, provider: str) -> None:
        """`provider` is the prefix that reasoning is labelled with."""
        self._provider = provider
        self._sse = SseParser()
        self._calls = CallSorter()
        self._reasoning = ""
        self._mender = Mender()
        self._raw_finish = ""
        self._refused = False
        self.usage: Usage | None = None
        self.done = False
        """The server said that nothing follows."""

    @property
    def finished(self) -> bool:
        """The server said why the answer ended; its usage may still follow."""
        return bool(self._raw_finish)

    def feed(self, data: bytes) -> Iterator[ModelEvent]:
        """The events that these bytes complete.

        Raises:
            ModelError: the stream reports an error, or is malformed.
        """
        for frame in self._sse.feed(data):
            yield from self._frame(frame.event, frame.data)

    def end(self) -> Iterator[ModelEvent]:
        """The last events, when no more bytes come.

        Raises:
            ModelError: `truncated` when the server never said that the answer is over.
        """
        try:
            for frame in self._sse.flush():
                yield from self._frame(frame.event, frame.data)
        except ModelError:
            if not self.finished:  # else what was cut off is not missed
                raise
        yield from self._reasoning_done()
        if not self._raw_finish:
            raise ModelError("truncated", "the answer stopped without a finish reason", usage=self.usage)
        raw = "refusal" if self._refused else self._raw_finish
        finish = _FINISHES.get(raw.lower(), "unknown")
        if finish == "stop" and self._calls.count:
            finish = "tool_calls"
        yield Finished(finish, raw)

    def whole(self, data: bytes) -> Iterator[ModelEvent]:
        """The events of an answer that is one JSON object instead of a stream; `end` follows.

        Raises:
            ModelError: it is an error, or no answer at all.
        """
        answer = body_of(data)
        if isinstance(answer, list) and answer:
            answer = answer[0]
        if not isinstance(answer, dict) or not isinstance(answer.get("choices"), list):
            raise classify(200, answer)
        choices = [choice | {"delta": choice.get("message")} for choice in answer["choices"] if choice]
        yield from self.chunk(answer | {"choices": choices})

    def chunk(self, chunk: Json) -> Iterator[ModelEvent]:
        """The events of one decoded chunk.

        Raises:
            ModelError: it reports an error.
        """
        if chunk.get("error") or chunk.get("object") == "error":
            raise self._failed(chunk)
        for choice in chunk.get("choices") or ():
            if isinstance(choice, dict) and choice.get("index") in (None, 0):
                yield from self._choice(choice)
        usage = chunk.get("usage") or _nested_usage(chunk)
        if isinstance(usage, dict) and (read := read_usage(usage)) != self.usage:
            self.usage = read
            yield UsageReport(read)

    def _frame(self, event: str, data: bytes) -> Iterator[ModelEvent]:
        data = data.strip()
        if data == b"[DONE]":
            self.done = True
        if self.done or not data:
            return
        chunk = decoded(data)
        if event == "error":
            raise self._failed(chunk)
        if isinstance(chunk, dict):
            yield from self.chunk(chunk)

    def _choice(self, choice: Json) -> Iterator[ModelEvent]:
        if choice.get("error"):
            raise self._failed(choice)
        delta = choice.get("delta")
        if isinstance(delta, dict):
            yield from self._delta(delta)
        finish = choice.get("finish_reason")
        if finish in _FAILED_FINISHES:
            raise ModelError(_FAILED_FINISHES[finish], f"the provider stopped with “{finish}”", usage=self.usage)
        if finish:
            self._raw_finish = str(finish)

    def _delta(self, delta: Json) -> Iterator[ModelEvent]:
        thought, text = _content(delta.get("content"))
        thought = delta.get("reasoning_content") or delta.get("reasoning") or thought
        if isinstance(thought, str) and thought:
            self._reasoning += thought
            yield ReasoningPiece(mended(thought))
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._refused = True
            text += refusal
        if text := self._mender.mend(text):
            yield from self._reasoning_done()
            yield TextPiece(text)
        for call in delta.get("tool_calls") or ():
            if isinstance(call, dict):
                yield from self._reasoning_done()
                yield from self._calls.feed(call)

    def _reasoning_done(self) -> Iterator[ModelEvent]:
        if self._reasoning:
            yield ReasoningDone(Reasoning(text=mended(self._reasoning), provider=self._provider))
            self._reasoning = ""

    def _failed(self, body: Any) -> ModelError:
        error = classify(None, body)
        error.usage = self.usage
        return error


def read_usage(usage: Json) -> Usage:
    """Token counts; what the server does not report is None. `prompt_tokens` includes cached tokens."""
    prompt = object_of(usage.get("prompt_tokens_details"))
    completion = object_of(usage.get("completion_tokens_details"))
    read = count_of(prompt.get("cached_tokens"))
    if read is None:
        read = count_of(usage.get("prompt_cache_hit_tokens"))
    write = count_of(prompt.get("cache_write_tokens"))
    if write is None:
        write = count_of(usage.get("cache_creation_input_tokens"))
    total = count_of(usage.get("prompt_tokens"))
    return Usage(
        input=None if total is None else max(0, total - (read or 0) - (write or 0)),
        output=count_of(usage.get("completion_tokens")),
        cache_read=read,
        cache_write=write,
        reasoning=count_of(completion.get("reasoning_tokens")),
    )


def _content(content: Any) -> tuple[str, str]:
    """Reasoning and text of a delta's content: a string, or a list of parts."""
    if isinstance(content, str):
        return "", content
    thought = text = ""
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict):
            continue
        if part.get("type") == "thinking":
            inner = part.get("thinking")
            thought += inner if isinstance(inner, str) else _content(inner)[1]
        elif isinstance(part.get("text"), str):
            text += part["text"]
    return thought, text


def _nested_usage(chunk: Json) -> Any:
    groq = chunk.get("x_groq")
    return groq.get("usage") if isinstance(groq, dict) else None
