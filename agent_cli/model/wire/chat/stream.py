"""Convert the bytes of a Chat Completions response to model events.

Servers agree on little beyond `choices[0].delta`. Known variants are parsed; anything that cannot be parsed is an
error, never a shorter answer.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.messages import Finish, Reasoning
from agent_cli.protocol.usage import Usage

from ...types.base import (
    CallPiece,
    CallStart,
    ErrorKind,
    ModelError,
    ModelEvent,
    ReasoningDone,
    ReasoningPiece,
    TextPiece,
    TextWasThought,
    UsageReport,
)
from ...types.classify import no_answer
from ...types.json import Json, join_surrogates, object_of, text_of
from ..event_stream import EventStream, SurrogateJoiner, TextBuffer, count_of, usage_of
from ..think_tags import CLOSE, STARTS, ThinkTags
from .reasoning_details import DETAILS, REASONING_FIELDS, THINKING, DetailCollector

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

    def __init__(self, provider: str, *, echoes_reasoning: bool = False) -> None:
        """With `echoes_reasoning`, the field in which reasoning comes is stored with it."""
        super().__init__(provider)
        self._echoes_reasoning = echoes_reasoning
        self._field = ""
        self._sorter = CallAssembler()
        self._reasoning = TextBuffer()
        self._details = DetailCollector()
        self._joiner = SurrogateJoiner()
        self._tags = ThinkTags()

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
        usage = chunk.get("usage") or ("x_groq" in chunk and object_of(chunk["x_groq"]).get("usage"))
        if isinstance(usage, dict) and (read := read_usage(usage)) != self.usage:
            self.usage = read
            yield UsageReport(read)

    def _choice(self, choice: Json) -> Iterator[ModelEvent]:
        if choice.get("error"):
            raise self._failed(choice)
        delta = choice.get("delta")
        if isinstance(delta, dict):
            if self._echoes_reasoning:
                self._field = next((field for field in REASONING_FIELDS if delta.get(field)), self._field)
            yield from self._delta(delta)
        if not (finish := str(choice.get("finish_reason") or "")):
            return
        if (failed := _FAILED_FINISHES.get(finish.lower())) is not None:
            raise ModelError(failed, f"the provider stopped with “{finish}”", usage=self.usage)
        self._finish, self._raw_finish = _FINISHES.get(finish.lower(), "unknown"), finish

    def _delta(self, delta: Json) -> Iterator[ModelEvent]:
        content = delta.get("content")
        beside, text = ("", content) if isinstance(content, str) else _content(content)
        thought = delta.get("reasoning_content") or delta.get("reasoning") or beside
        if DETAILS in delta or THINKING in delta:  # these say the same again
            detailed = self._details.add(delta)
            thought = detailed if detailed or delta.get(THINKING) else thought
        if (refusal := delta.get("refusal")) and isinstance(refusal, str):
            self._refused = True
            text += refusal
        text = self._joiner.join(text)
        calls = delta.get("tool_calls") or ()
        if not self._tags.is_idle:
            inside, text = self._tags.split(text, is_last=bool(calls))
            thought = text_of(thought) + inside
        if thought and (thought := self._reasoning.add(text_of(thought))):
            self.lone_close = None
            yield ReasoningPiece(thought)
        if (lone := self.lone_close) is not None and (CLOSE in text or lone.held or text.endswith(STARTS)):
            yield from self._may_be_thought(text, is_last=bool(calls))
        elif text:
            if self._reasoning:
                yield from self._reasoning_done()
            yield TextPiece(text)
        for call in calls:
            if isinstance(call, dict):
                yield from self._reasoning_done()
                yield from self._sorter.feed(call)
                self._calls = self._sorter.count

    def _reasoning_done(self) -> Iterator[ModelEvent]:
        if self._reasoning:
            if not self._details.has_text:
                yield ReasoningDone(Reasoning(str(self._reasoning), provider=self._provider, field=self._field))
            self._reasoning = TextBuffer()

    def _may_be_thought(self, text: str, *, is_last: bool) -> Iterator[ModelEvent]:
        assert self.lone_close is not None
        before, after = self.lone_close.split(text, is_last=is_last)
        if before:
            yield TextPiece(before)
        if after is not None:
            self.lone_close = None
            yield TextWasThought(self._provider, f"{CLOSE}\n")
            if after:
                yield TextPiece(after)

    def _unsaid(self) -> Iterator[ModelEvent]:
        thought, text = self._tags.split("", is_last=True)
        yield from self._delta({"reasoning": thought, "content": text})
        if self.lone_close is not None and self.lone_close.held:
            yield from self._may_be_thought("", is_last=True)
        yield from self._reasoning_done()
        for block in self._details.blocks(self._provider):
            yield ReasoningDone(block)


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


_Key = tuple[str, Any]


class _Open:
    """A call being received."""

    def __init__(self, index: int, identifier: str, name: str) -> None:
        self.index = index
        self.id = identifier
        self.name = name
        self.arguments = TextBuffer()

    def complete(self) -> bool:
        """Return True if its arguments are already a complete JSON object."""
        if self.arguments.last != "}":
            return False
        try:
            return isinstance(decode_json(str(self.arguments)), dict)
        except msgspec.DecodeError:
            return False


class CallAssembler:
    """Assigns each fragment to its call.

    A fragment belongs to the call of its index, else of its id, else to the last one. It starts a new call if
    there is none, if that call has another id, and, if ids are missing, if it has a name and that call is already
    complete or (without an index) has another name.
    """

    def __init__(self) -> None:
        self._calls: list[_Open] = []
        self._by_key: dict[_Key, _Open] = {}

    @property
    def count(self) -> int:
        """Number of calls started so far."""
        return len(self._calls)

    def feed(self, delta: dict[str, Any]) -> Iterator[CallStart | CallPiece]:
        """Yield the events of one entry of `tool_calls`."""
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        identifier = _text(delta.get("id"))
        name = _text(function.get("name"))
        arguments = _arguments(function.get("arguments"))
        index = delta.get("index")
        key = ("index", index) if isinstance(index, int | str) else ("id", identifier)
        call = self._find(key, identifier)
        if call is None or self._begins(call, key, identifier, name, arguments):
            call = self._begin(key, identifier, name)
            yield CallStart(call.index, identifier, name)
        elif late := self._late_name(call, name):
            yield CallPiece(call.index, name=late)
        call.id = call.id or identifier
        if arguments := call.arguments.add(arguments):
            yield CallPiece(call.index, arguments)
        if signature := _signature(delta):
            yield CallPiece(call.index, signature=signature)

    def _find(self, key: _Key, identifier: str) -> _Open | None:
        if key[0] == "index" or identifier:
            return self._by_key.get(key)
        return self._calls[-1] if self._calls else None

    @staticmethod
    def _begins(call: _Open, key: _Key, identifier: str, name: str, arguments: str) -> bool:
        if identifier and call.id and (name or call.complete()):  # some servers give each piece another id
            return identifier != call.id
        if not name or not call.name:
            return False
        if call.complete():
            return bool(arguments) or name != call.name
        return key[0] == "id" and name != call.name

    def _begin(self, key: _Key, identifier: str, name: str) -> _Open:
        call = _Open(len(self._calls), identifier, name)
        self._calls.append(call)
        self._by_key[key] = call
        if identifier:
            self._by_key.setdefault(("id", identifier), call)
        return call

    @staticmethod
    def _late_name(call: _Open, name: str) -> str:
        """Return what a continuation adds to the name; nothing if it only repeats it."""
        if not name or call.arguments or name == call.name:
            return ""
        late = name.removeprefix(call.name)
        call.name += late
        return late


def _signature(delta: dict[str, Any]) -> str:
    """Return Gemini's thought signature, `extra_content.google.thought_signature`."""
    extra = delta.get("extra_content")
    google = extra.get("google") if isinstance(extra, dict) else None
    return _text(google.get("thought_signature")) if isinstance(google, dict) else ""


def _text(value: Any) -> str:
    return join_surrogates(value if isinstance(value, str) else "" if value is None else str(value))


def _arguments(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()
