"""One answer read as it comes, whether it is a stream or one JSON object. What a reader cannot cope with is the
server's fault, and said to be: servers send every shape that JSON has."""

from collections.abc import Iterator

from agent_cli.protocol.lazy_regex import lazy_regex

from ..types.base import CallPiece, ModelError, ModelEvent, ReasoningPiece, TextPiece
from ..types.classify import no_answer
from .event_stream import EventStream

_ODD = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""What reading odd shapes raises; wrong characters are a `ValueError`."""

_Piece = TextPiece | ReasoningPiece | CallPiece

_STREAM = lazy_regex(rb"\s*(?:\xef\xbb\xbf)?(?:data|event|id|retry)?:")
"""How an event stream begins."""
_HEAD_BYTES = 400


class AnswerReader:
    """Feed it bytes, then call `end`."""

    def __init__(self, reader: EventStream, content_type: str = "") -> None:
        """`reader` understands the format; `content_type` is the header of the answer."""
        self._reader = reader
        self._lines = "ndjson" in content_type
        self._begun = False
        self._whole: list[bytes] | None = None
        self._head = b""
        """The beginning of what came, as long as it has said nothing."""
        self._heard = False

    @property
    def done(self) -> bool:
        """The server said that nothing follows."""
        return self._reader.done

    @property
    def finished(self) -> bool:
        """The server said why the answer ended; its usage may still follow."""
        return self._reader.finished

    def feed(self, data: bytes) -> Iterator[ModelEvent]:
        """Yield the events that these bytes complete, with neighbouring pieces of one text joined; none while an
        answer that is no stream arrives.

        Raises:
            ModelError: the answer reports an error, or is malformed.
        """
        if not self._begun and (start := data.lstrip()):
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
        """Yield the last events, when no more bytes come.

        Raises:
            ModelError: as `feed`, or `truncated` when the server never said that the answer is over.
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
    """Yield events with neighbouring pieces of one text joined: servers send an event for each token, and a piece
    costs the same whether it is short or long."""
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
        if first is not None:  # what came before an error has come
            yield _whole(first, texts)
        raise
    if first is not None:
        yield _whole(first, texts)


def _whole(first: _Piece, texts: list[str]) -> ModelEvent:
    """Return the pieces that begin with `first` as one of its kind."""
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
