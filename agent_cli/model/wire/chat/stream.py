"""Convert the bytes of a Chat Completions response to model events.

Servers agree on little beyond `choices[0].delta`. Known variants are parsed; anything that cannot be parsed is an
error, never a shorter answer.
"""

from collections.abc import Iterator
from typing import Any

from agent_cli.protocol.messages import Finish, Reasoning
from agent_cli.protocol.usage import Usage

from ...types.base import (
    ErrorKind,
    ModelError,
    ModelEvent,
    ReasoningDone,
    ReasoningPiece,
    TextPiece,
    UsageReport,
)
from ...types.classify import no_answer
from ...types.json import Json, object_of, text_of
from ..call_assembler import CallAssembler
from ..event_stream import EventStream, SurrogateJoiner, TextBuffer, count_of, usage_of

_FINISHES: dict[str, Finish] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end": "stop",
    "complete": "stop",
    "completed": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "tool_calls": "tool_calls",
    "tool_call": "tool_calls",
    "function_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
    "sensitive": "content_filter",
    "prohibited_content": "content_filter",
    "recitation": "content_filter",
}
_FAILED_FINISHES: dict[str, ErrorKind] = {
    "error": "server",
    "insufficient_system_resource": "overloaded",
    "abort": "truncated",
    "aborted": "truncated",
    "cancelled": "truncated",
    "canceled": "truncated",
    "timeout": "truncated",
    "network_error": "truncated",
}
"""The answer broke off at the provider and may contain half a call."""


class ChatStream(EventStream):
    """Parser for one response: feed it bytes, then call `end`."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._sorter = CallAssembler()
        self._reasoning = TextBuffer()
        self._joiner = SurrogateJoiner()

    def _answer(self, answer: Any) -> Iterator[ModelEvent]:
        if not isinstance(answer, dict) or not isinstance(answer.get("choices"), list):
            raise no_answer(answer)
        choices = [choice | {"delta": choice.get("message")} for choice in answer["choices"] if choice]
        yield from self.chunk(answer | {"choices": choices})

    def chunk(self, chunk: Json) -> Iterator[ModelEvent]:
        if chunk.get("error") or "error" in (chunk.get("object"), chunk.get("type")):
            raise self._failed(chunk)
        for choice in chunk.get("choices") or ():
            if isinstance(choice, dict) and choice.get("index") in (None, 0):
                yield from self._choice(choice)
        usage = chunk.get("usage") or ("x_groq" in chunk and _nested_usage(chunk))
        if isinstance(usage, dict) and (read := read_usage(usage)) != self.usage:
            self.usage = read
            yield UsageReport(read)

    def _choice(self, choice: Json) -> Iterator[ModelEvent]:
        if choice.get("error"):
            raise self._failed(choice)
        delta = choice.get("delta")
        if isinstance(delta, dict):
            yield from self._delta(delta)
        if not (finish := str(choice.get("finish_reason") or "")):
            return
        if (failed := _FAILED_FINISHES.get(finish.lower())) is not None:
            raise ModelError(failed, f"the provider stopped with “{finish}”", usage=self.usage)
        self._finish, self._raw_finish = _FINISHES.get(finish.lower(), "unknown"), finish

    def _delta(self, delta: Json) -> Iterator[ModelEvent]:
        content = delta.get("content")
        thought, text = ("", content) if isinstance(content, str) else _content(content)
        thought = delta.get("reasoning_content") or delta.get("reasoning") or thought
        if thought and (thought := self._reasoning.add(text_of(thought))):
            yield ReasoningPiece(thought)
        if (refusal := delta.get("refusal")) and isinstance(refusal, str):
            self._refused = True
            text += refusal
        if text := self._joiner.join(text):
            if self._reasoning:
                yield from self._reasoning_done()
            yield TextPiece(text)
        for call in delta.get("tool_calls") or ():
            if isinstance(call, dict):
                yield from self._reasoning_done()
                yield from self._sorter.feed(call)
                self._calls = self._sorter.count

    def _reasoning_done(self) -> Iterator[ModelEvent]:
        if self._reasoning:
            yield ReasoningDone(Reasoning(text=str(self._reasoning), provider=self._provider))
            self._reasoning = TextBuffer()

    def _unsaid(self) -> Iterator[ModelEvent]:
        yield from self._reasoning_done()


def read_usage(usage: Json) -> Usage:
    """Return the token counts, None if not reported. `prompt_tokens` includes cached tokens."""
    prompt = object_of(usage.get("prompt_tokens_details"))
    completion = object_of(usage.get("completion_tokens_details"))
    read = count_of(prompt.get("cached_tokens"))
    if read is None:
        read = count_of(usage.get("prompt_cache_hit_tokens"))
    write = count_of(prompt.get("cache_write_tokens"))
    if write is None:
        write = count_of(usage.get("cache_creation_input_tokens"))
    sent, answered = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return usage_of(sent, answered, read, write, completion.get("reasoning_tokens"))


def _content(content: Any) -> tuple[str, str]:
    """Return reasoning and text of a delta's content: a string, or a list of parts."""
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
