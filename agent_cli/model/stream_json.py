"""What the readers of event streams share: frames as JSON, and characters that were cut in two."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from ..protocol.messages import Finish
from .base import ModelError
from .dialect import Json
from .sse import Frame, SseParser
from .surrogates import mended


class Chunks:
    """Cuts bytes into the JSON objects of an event stream."""

    def __init__(self) -> None:
        self._sse = SseParser()
        self.done = False
        """A `[DONE]` came."""

    def feed(self, data: bytes) -> Iterator[Json]:
        """The objects that these bytes complete, each with a `type`: its own or its event's name.

        Raises:
            ModelError: `malformed`.
        """
        yield from self._objects(self._sse.feed(data))

    def flush(self) -> Iterator[Json]:
        """The object that was still open when the stream ended.

        Raises:
            ModelError: `malformed`.
        """
        yield from self._objects(self._sse.flush())

    def _objects(self, frames: Iterator[Frame]) -> Iterator[Json]:
        for frame in frames:
            text = frame.data.strip()
            self.done = self.done or text == b"[DONE]"
            if self.done or not text:
                continue
            value = decoded(text)
            if isinstance(value, dict):
                yield value if "type" in value else value | {"type": frame.event}
            elif frame.event == "error":
                yield {"type": "error", "message": str(value)}


class Mender:
    """Puts the halves of a character together that came in different pieces."""

    def __init__(self) -> None:
        self._half = ""

    def mend(self, text: str) -> str:
        """The text that is whole by now."""
        if text.isascii() and not self._half:
            return text
        text = self._half + text
        self._half = text[-1] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return mended(text.removesuffix(self._half))


def decoded(data: bytes) -> Any:
    """JSON, read leniently.

    Raises:
        ModelError: `malformed`.
    """
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        pass
    try:
        return json.loads(data)  # takes what msgspec does not: NaN, halves of a surrogate pair
    except ValueError as error:
        shown = data[:200].decode("utf-8", "replace")
        raise ModelError("malformed", f"not JSON in the stream: {shown}") from error


def body_of(data: bytes) -> Any:
    """An answer that came whole: JSON, or text when it is none."""
    try:
        return decoded(data)
    except ModelError:
        return data.decode("utf-8", "replace")


def text_of(value: Any) -> str:
    """A field that should be a string; empty when it is none."""
    return value if isinstance(value, str) else ""


def object_of(value: Any) -> Json:
    """A field that should be an object; empty when it is none."""
    return value if isinstance(value, dict) else {}


def count_of(value: Any) -> int | None:
    """A field that should be a number of tokens."""
    return value if isinstance(value, int) and value >= 0 else None


def finish_of(finish: Finish, calls: int) -> Finish:
    """Servers have been seen to end an answer with calls as any other."""
    return "tool_calls" if finish == "stop" and calls else finish
