"""Assemble tool calls from streamed fragments, even if a server omits indices, ids or names."""

from collections.abc import Iterator
from typing import Any

import msgspec

from ..types.base import CallPiece, CallStart
from ..types.json import join_surrogates
from .event_stream import TextBuffer

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
            return isinstance(msgspec.json.decode(str(self.arguments)), dict)
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
        if identifier and call.id:
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
