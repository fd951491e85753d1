"""Convert the bytes of an OpenAI Responses response to model events.

Everything is sent at least twice: in pieces, and whole when a part, an item and the answer are done. The pieces
are used; the whole supplies only what is missing from them.
"""

from collections.abc import Iterable, Iterator
from typing import Any

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
from ..event_stream import EventStream, TextBuffer, count_of, usage_of, word_of

_INCOMPLETE: dict[str, Finish] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
_BETWEEN = "\n\n"
"""Separator between the parts of a summary, and between the messages of one answer."""


class _Item:
    """An output item being received."""

    def __init__(self) -> None:
        self.received: dict[str, TextBuffer] = {}
        """Received text by part."""
        self.call = -1
        """Index of the call, for a function call item."""
        self.kind = ""
        """Type of the item, as far as known."""
        self.ids: frozenset[str] = frozenset()
        """Ids of the item and of its call, as far as known."""
        self.done = False

    def add(self, key: str, text: str) -> str:
        """Add a piece of a part; return the text that can be passed on now."""
        if (received := self.received.get(key)) is None:
            received = self.received[key] = TextBuffer()
        return received.add(text)

    def beyond(self, key: str, whole: str) -> str:
        """Return what the whole text of a part adds to its pieces."""
        return self.received[key].beyond(whole) if key in self.received else whole


class ResponsesStream(EventStream):
    """Parser for one response: feed it bytes, then call `end`."""

    end_word = "a final status"

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._items: dict[Any, _Item] = {}
        self._all: list[_Item] = []
        self._speaker: _Item | None = None

    def _answer(self, answer: Any) -> Iterator[ModelEvent]:
        if not isinstance(answer, dict) or not isinstance(answer.get("output"), list):
            raise no_answer(answer)
        yield from self.chunk({"type": f"response.{answer.get('status') or 'completed'}", "response": answer})

    def chunk(self, chunk: Json) -> Iterator[ModelEvent]:
        if self._over:
            return
        match text_of(chunk["type"]).removeprefix("response."):
            case "output_item.added":
                yield from self._added(self._item(chunk, begins=True), object_of(chunk.get("item")))
            case "output_item.done":
                yield from self._item_done(self._item(chunk), object_of(chunk.get("item")))
            case "output_text.delta" | "refusal.delta" as kind:
                yield from self._text(chunk, text_of(chunk.get("delta")), refused=kind == "refusal.delta")
            case "output_text.done":
                yield from self._text(chunk, self._rest(chunk, "text"))
            case "refusal.done":
                yield from self._text(chunk, self._rest(chunk, "refusal"), refused=True)
            case "reasoning_summary_text.delta" | "reasoning_text.delta":
                yield from self._thought(self._item(chunk), _part_key(chunk), text_of(chunk.get("delta")))
            case "reasoning_summary_text.done" | "reasoning_text.done":
                yield from self._thought(self._item(chunk), _part_key(chunk), self._rest(chunk, "text"))
            case "function_call_arguments.delta":
                yield from self._arguments(self._item(chunk), text_of(chunk.get("delta")))
            case "function_call_arguments.done":
                yield from self._arguments(self._item(chunk), self._rest(chunk, "arguments"))
            case "completed" | "incomplete" as status:
                yield from self._ended(status, object_of(chunk.get("response")))
            case "failed" | "cancelled" | "error":
                raise self._failure(chunk)

    def _item(self, chunk: Json, *, begins: bool = False) -> _Item:
        """Return the item of an event: by output index, else by item id, else by the id of the item it
        contains. One that begins where another has ended is a new one."""
        key = chunk.get("output_index")
        if key is None:
            key = chunk.get("item_id") or object_of(chunk.get("item")).get("id")
        if (item := self._items.get(key)) is None or (begins and item.done):
            item = self._items[key] = _Item()
            self._all.append(item)
        return item

    def _rest(self, chunk: Json, field: str) -> str:
        """Return what a whole text adds to the pieces received before."""
        return self._item(chunk).beyond(_part_key(chunk), text_of(chunk.get(field)))

    def _received(self, output: list[Json]) -> Iterator[tuple[_Item, Json]]:
        """Yield each item of a whole answer with what was received of it: the item with its id, else the one at
        its index, else the next of its type if no more of them are in the answer. Some gateways number or name the
        items of the stream and of the answer differently, and no call may run twice."""
        left = list(self._all)
        found: dict[int, _Item] = {}

        def match(index: int, same: Iterable[_Item | None]) -> None:
            if index not in found and (item := next((each for each in same if each in left), None)) is not None:
                found[index] = item
                left.remove(item)

        for index, whole in enumerate(output):
            ids = _ids_of(whole)
            match(index, (item for item in self._all if item.ids & ids))
        kinds = [text_of(whole.get("type")) for whole in output]
        for index, whole in enumerate(output):
            at = self._items.get(index) or self._items.get(whole.get("id"))
            match(index, [at] if at is not None and at.kind in ("", kinds[index]) else [])
        for index, kind in enumerate(kinds):
            if kinds.count(kind) <= sum(item.kind == kind for item in self._all):
                match(index, [item for item in left if item.kind == kind])
        yield from ((found.get(index) or _Item(), whole) for index, whole in enumerate(output))

    def _added(self, item: _Item, begun: Json) -> Iterator[ModelEvent]:
        item.ids |= _ids_of(begun)
        item.kind = item.kind or text_of(begun.get("type"))
        if begun.get("type") == "function_call" and item.call < 0:
            item.call = self._calls
            self._calls += 1
            yield CallStart(item.call, word_of(begun.get("call_id")), word_of(begun.get("name")))
            yield from self._arguments(item, text_of(begun.get("arguments")))

    def _item_done(self, item: _Item, whole: Json) -> Iterator[ModelEvent]:
        if item.done:
            return
        item.done = True
        item.ids |= _ids_of(whole)
        item.kind = text_of(whole.get("type"))
        match whole.get("type"):
            case "function_call":
                yield from self._added(item, whole | {"arguments": ""})
                yield from self._arguments(item, item.beyond("", text_of(whole.get("arguments"))))
            case "message":
                for index, part in enumerate(_objects(whole.get("content"))):
                    key, refused = f"content_index {index}", part.get("type") == "refusal"
                    yield from self._spoken(item, key, item.beyond(key, _text_in(part)), refused=refused)
            case "reasoning":
                yield from self._reasoned(item, whole)

    def _reasoned(self, item: _Item, whole: Json) -> Iterator[ModelEvent]:
        for field, name in (("summary", "summary_index"), ("content", "content_index")):
            for index, part in enumerate(_objects(whole.get(field))):
                key = f"{name} {index}"
                yield from self._thought(item, key, item.beyond(key, _text_in(part)))
        text = _BETWEEN.join(map(str, item.received.values()))
        signature = word_of(whole.get("encrypted_content"))
        if text or signature:
            yield ReasoningDone(Reasoning(text, signature, self._provider))

    def _text(self, chunk: Json, text: str, *, refused: bool = False) -> Iterator[ModelEvent]:
        yield from self._spoken(self._item(chunk), _part_key(chunk), text, refused=refused)

    def _spoken(self, item: _Item, key: str, text: str, *, refused: bool) -> Iterator[ModelEvent]:
        if not text:
            return
        self._refused = self._refused or refused
        if self._speaker not in (None, item):
            yield TextPiece(_BETWEEN)
        self._speaker = item
        if text := item.add(key, text):
            yield TextPiece(text)

    def _thought(self, item: _Item, key: str, text: str) -> Iterator[ModelEvent]:
        if not text:
            return
        begins = key not in item.received and bool(item.received)
        if text := (_BETWEEN if begins else "") + item.add(key, text):
            yield ReasoningPiece(text)

    def _arguments(self, item: _Item, text: str) -> Iterator[ModelEvent]:
        if item.call < 0:
            return  # the whole call follows when its item is done
        if text := item.add("", text):
            yield CallPiece(item.call, text)

    def _ended(self, status: str, response: Json) -> Iterator[ModelEvent]:
        for item, whole in self._received(_objects(response.get("output"))):
            yield from self._item_done(item, whole)
        self._count(response)
        if self.usage is not None:
            yield UsageReport(self.usage)
        self._over = True
        self._finish, self._raw_finish = "stop", status
        if status == "incomplete":
            reason = text_of(object_of(response.get("incomplete_details")).get("reason"))
            self._finish, self._raw_finish = _INCOMPLETE.get(reason, "unknown"), reason or status

    def _count(self, response: Json) -> None:
        if isinstance(usage := response.get("usage"), dict):
            self.usage = read_usage(usage)

    def _failure(self, chunk: Json) -> ModelError:
        response = object_of(chunk.get("response"))
        self._count(response)
        body = {"error": response["error"]} if response.get("error") else chunk
        if not response.get("error") and chunk["type"] != "error":
            body = {"error": {"message": f"the provider ended the answer as {chunk['type']}"}}
        code = object_of(body.get("error", body)).get("code")
        return self._failed(body, 500 if code == "server_error" else None)


def read_usage(usage: Json) -> Usage:
    """Return the token counts, None if not reported. `input_tokens` includes cached tokens."""
    details = object_of(usage.get("input_tokens_details"))
    read, written = count_of(details.get("cached_tokens")), count_of(details.get("cache_write_tokens"))
    reasoning = object_of(usage.get("output_tokens_details")).get("reasoning_tokens")
    return usage_of(usage.get("input_tokens"), usage.get("output_tokens"), read, written, reasoning)


def _part_key(chunk: Json) -> str:
    """Return the key of a part within its item; empty for the arguments of a call."""
    for name in ("summary_index", "content_index"):
        if chunk.get(name) is not None:
            return f"{name} {chunk[name]}"
    if "arguments" in text_of(chunk["type"]):
        return ""
    return "summary_index 0" if "summary" in text_of(chunk["type"]) else "content_index 0"


def _ids_of(item: Json) -> frozenset[str]:
    return frozenset(word_of(item.get(name)) for name in ("id", "call_id")) - {""}


def _objects(value: Any) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text_in(part: Json) -> str:
    return text_of(part.get("text")) or text_of(part.get("refusal"))
