"""Incremental reader for a response that is a stream or one JSON object. Data that a parser cannot handle is
reported as the server's fault, because servers send every shape that JSON allows."""

from collections.abc import Iterator

from agent_cli.protocol.json_text import BYTE_ORDER_MARK
from agent_cli.protocol.lazy_regex import lazy_regex

from ..types.base import CallPiece, ModelError, ModelEvent, ReasoningPiece, TextPiece
from ..types.classify import no_answer
from .event_stream import EventStream

_ODD = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""Exceptions raised on odd shapes; invalid characters are a `ValueError`."""

_Piece = TextPiece | ReasoningPiece | CallPiece

_STREAM = lazy_regex(rb"\s*(?:\xef\xbb\xbf)?(?:data|event|id|retry)?:")
"""Start of an event stream."""
_HEAD_BYTES = 400


class AnswerReader:
    """Response reader: feed it bytes, then call `end`."""

    def __init__(self, reader: EventStream, content_type: str = "") -> None:
        """Create a reader. `reader` parses the format; `content_type` is the response header."""
        self._reader = reader
        self._lines = "ndjson" in content_type
        self._begun = False
        self._whole: list[bytes] | None = None
        self._head = b""
        """Start of the response, while it has produced no event."""
        self._heard = False

    @property
    def done(self) -> bool:
        """True after the server said that nothing follows."""
        return self._reader.done

    @property
    def finished(self) -> bool:
        """True after the server gave the reason for the end; its usage may still follow."""
        return self._reader.finished

    def feed(self, data: bytes) -> Iterator[ModelEvent]:
        """Yield the events completed by these bytes, with adjacent pieces of one text joined; none while a
        response that is not a stream arrives.

        Raises:
            ModelError: the response reports an error, or is malformed.
        """
        if not self._begun and (start := data.lstrip().removeprefix(BYTE_ORDER_MARK)):
            self._begun = True
            if start[:1] in (b"{", b"[", b"<") and not self._lines:
                self._whole = []
        if self._whole is not None:
            self._whole.append(data)
        elif self._begun:
            if not self._heard:
                self._head += data[: _HEAD_BYTES - len(self._head)]
            for event in _join_pieces(_understood(self._reader.feed(data))):
                self._heard = True
                yield event

    def end(self) -> Iterator[ModelEvent]:
        """Yield the last events when no more bytes arrive.

        Raises:
            ModelError: as `feed`, or `truncated` if the server never reported the end of the answer.
        """
        if self._whole is not None:
            yield from _understood(self._reader.whole(b"".join(self._whole)))
        try:
            yield from _understood(self._reader.end())
        except ModelError as error:
            if error.kind == "truncated" and self._head and not self._heard and not _STREAM.match(self._head):
                raise no_answer(self._head.decode("utf-8", "replace")) from error
            raise


def _join_pieces(events: Iterator[ModelEvent]) -> Iterator[ModelEvent]:
    """Yield events with adjacent pieces of one text joined: servers send an event per token, and a piece costs the
    same whether short or long."""
    first: _Piece | None = None
    texts: list[str] = []
    try:
        for event in events:
            if isinstance(event, TextPiece | ReasoningPiece):
                goes_on, text = type(event) is type(first), event.text
            elif isinstance(event, CallPiece) and not (event.name or event.signature or event.problem):
                goes_on, text = isinstance(first, CallPiece) and first.index == event.index, event.arguments
            else:
                if first is not None:
                    yield _whole(first, texts)
                    first = None
                yield event
                continue
            if goes_on:
                texts.append(text)
                continue
            if first is not None:
                yield _whole(first, texts)
            first, texts = event, [text]
    except ModelError:
        if first is not None:  # pieces before the error are still passed on
            yield _whole(first, texts)
        raise
    if first is not None:
        yield _whole(first, texts)


def _whole(first: _Piece, texts: list[str]) -> ModelEvent:
    """Return one piece that joins those starting with `first`."""
    if len(texts) == 1:
        return first
    if isinstance(first, CallPiece):
        return CallPiece(first.index, "".join(texts))
    return type(first)("".join(texts))


def _understood(events: Iterator[ModelEvent]) -> Iterator[ModelEvent]:
    try:
        yield from events
    except _ODD as error:
        said = f"{type(error).__name__}: {error}"[:200]
        raise ModelError("malformed", f"the answer has an unexpected shape ({said})") from error
