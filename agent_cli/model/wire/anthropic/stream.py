"""Convert the bytes of an Anthropic Messages response to model events. Blocks follow each other; data outside a
block, or in an unknown kind of block, is skipped."""

from collections.abc import Iterator
from typing import Any

import msgspec

from agent_cli.protocol.messages import Finish, Reasoning
from agent_cli.protocol.usage import Usage

from ...types.base import (
    CallPiece,
    CallStart,
    ModelError,
    ModelEvent,
    ReasoningDone,
    ReasoningPiece,
    TextPiece,
    UsageReport,
)
from ...types.classify import no_answer
from ...types.json import Json, object_of, text_of
from ..event_stream import EventStream, SurrogateJoiner, TextBuffer, count_of, word_of

_FINISHES: dict[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "message_stop": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class _Block:
    """A block being received."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.text = TextBuffer()
        self.signature = TextBuffer()
        self.call = -1
        """Index of the call, for a tool use block."""
        self.input: Any = None
        """Arguments sent with the start of the block, as some servers do."""


class MessagesStream(EventStream):
    """Parser for one response: feed it bytes, then call `end`."""

    end_word = "a stop reason"

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._joiner = SurrogateJoiner()
        self._blocks: dict[Any, _Block] = {}
        self._last: _Block | None = None

    def _answer(self, answer: Any) -> Iterator[ModelEvent]:
        if not isinstance(answer, dict) or not isinstance(answer.get("content"), list):
            raise no_answer(answer)
        for index, block in enumerate(answer["content"]):
            yield from self._start({"index": index, "content_block": block})
        yield from self._ended({"delta": answer, "usage": answer.get("usage")})

    def chunk(self, chunk: Json) -> Iterator[ModelEvent]:
        if self._over:
            return
        match chunk["type"]:
            case "message_start":
                yield from self._begun(object_of(object_of(chunk.get("message")).get("usage")))
            case "content_block_start":
                yield from self._start(chunk)
            case "content_block_delta":
                yield from self._delta(self._block(chunk), object_of(chunk.get("delta")))
            case "content_block_stop":
                yield from self._close(self._block(chunk))
            case "message_delta":
                yield from self._ended(chunk)
            case "message_stop":
                self._over = True
                self._stop(self._raw_finish or "message_stop")
            case "error":
                raise self._failed(chunk)

    def _stop(self, reason: str) -> None:
        if reason:
            self._finish, self._raw_finish = _FINISHES.get(reason, "unknown"), reason

    def _begun(self, usage: Json) -> Iterator[ModelEvent]:
        """Yield the counts at the start, except for the output count, which is a placeholder."""
        if usage:
            yield from self._count({name: count for name, count in usage.items() if "output" not in name})

    def _start(self, chunk: Json) -> Iterator[ModelEvent]:
        yield from self._close(self._last)
        begun = object_of(chunk.get("content_block"))
        block = self._open(chunk.get("index"), text_of(begun.get("type")))
        match block.kind:
            case "text":
                yield from self._text(text_of(begun.get("text")))
            case "thinking":
                block.signature.add(text_of(begun.get("signature")))
                yield from self._thought(block, text_of(begun.get("thinking")))
            case "redacted_thinking":
                block.signature.add(text_of(begun.get("data")))
            case "tool_use":
                block.call, block.input = self._calls, begun.get("input")
                self._calls += 1
                yield CallStart(block.call, word_of(begun.get("id")), word_of(begun.get("name")))

    def _open(self, index: Any, kind: str) -> _Block:
        block = self._blocks[index] = self._last = _Block(kind)
        return block

    def _block(self, chunk: Json) -> _Block | None:
        index = chunk.get("index")
        return self._last if index is None else self._blocks.get(index)

    def _delta(self, block: _Block | None, delta: Json) -> Iterator[ModelEvent]:
        kind = delta.get("type")
        if kind == "text_delta":
            yield from self._text(text_of(delta.get("text")))
        elif kind == "thinking_delta":
            thinking = block is not None and block.kind == "thinking"
            block = block if block is not None and thinking else self._open(None, "thinking")
            yield from self._thought(block, text_of(delta.get("thinking")))
        elif kind == "signature_delta" and block is not None:
            block.signature.add(text_of(delta.get("signature")))
        elif kind == "input_json_delta":
            if block is None:
                raise ModelError("malformed", "arguments came for a call that never began", usage=self.usage)
            if block.call >= 0 and (arguments := block.text.add(text_of(delta.get("partial_json")))):
                yield CallPiece(block.call, arguments)

    def _text(self, text: str) -> Iterator[ModelEvent]:
        if text := self._joiner.join(text):
            yield TextPiece(text)

    def _thought(self, block: _Block, text: str) -> Iterator[ModelEvent]:
        if text := block.text.add(text):
            yield ReasoningPiece(text)

    def _close(self, block: _Block | None) -> Iterator[ModelEvent]:
        """Yield the remaining events of a block, once."""
        if block is None or not block.kind:
            return
        kind, block.kind = block.kind, ""
        if kind in ("thinking", "redacted_thinking") and (block.text or block.signature):
            redacted = kind == "redacted_thinking"
            yield ReasoningDone(Reasoning(str(block.text), str(block.signature), self._provider, redacted))
        elif kind == "tool_use" and block.input and not block.text:
            yield CallPiece(block.call, msgspec.json.encode(block.input).decode())

    def _unsaid(self) -> Iterator[ModelEvent]:
        yield from self._close(self._last)

    def _ended(self, chunk: Json) -> Iterator[ModelEvent]:
        yield from self._close(self._last)
        self._stop(text_of(object_of(chunk.get("delta")).get("stop_reason")))
        yield from self._count(chunk.get("usage"))

    def _count(self, usage: Any) -> Iterator[ModelEvent]:
        """Update the counts: those at the end complete those at the start."""
        if not isinstance(usage, dict):
            return
        new = read_usage(usage)
        if self.usage is not None:
            new = _larger(self.usage, new)
        if new != self.usage:
            self.usage = new
            yield UsageReport(new)


def read_usage(usage: Json) -> Usage:
    """Return the token counts, None if not reported. `input_tokens` excludes cached tokens."""
    written = count_of(usage.get("cache_creation_input_tokens"))
    if written is None and isinstance(parts := usage.get("cache_creation"), dict):
        written = sum(count_of(tokens) or 0 for tokens in parts.values())
    details = object_of(usage.get("output_tokens_details"))
    return Usage(
        input=count_of(usage.get("input_tokens")),
        output=count_of(usage.get("output_tokens")),
        cache_read=count_of(usage.get("cache_read_input_tokens")),
        cache_write=written,
        reasoning=count_of(details.get("thinking_tokens")),
    )


def _larger(one: Usage, two: Usage) -> Usage:
    """Return the larger of each count: counts only grow, but some servers repeat earlier ones as 0."""
    pairs = {name: (getattr(one, name), getattr(two, name)) for name in Usage.__struct_fields__}
    return Usage(**{name: max((n for n in pair if n is not None), default=None) for name, pair in pairs.items()})
