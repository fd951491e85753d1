"""Server-sent events from bytes. Apart, because every general line splitter gets it wrong: a frame ends
only at LF, CR or CRLF, never at U+2028 and its like, which models do write."""

from collections.abc import Iterator

import msgspec


class Frame(msgspec.Struct, frozen=True):
    """One event of a stream."""

    event: str
    """Its name; empty when the server gives none."""
    data: bytes
    """The `data:` lines joined by newlines."""


class SseParser:
    """Cuts a byte stream, in chunks of any size, into frames.

    Source: the WHATWG HTML standard, "Server-sent events", except that an unfinished frame at the end of
    the stream counts, because some servers leave out the last empty line.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []
        """Parts of the line that has not ended yet."""
        self._after_cr = False
        """An LF that comes next belongs to the CR before it."""
        self._event = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """Yield the frames this chunk completes. Bytes are looked at once, however long a line is."""
        if not chunk:
            return
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        end, *lines = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._line.append(end)
        for start in lines:
            line, self._line = b"".join(self._line), [start]
            yield from self._take(line)

    def flush(self) -> Iterator[Frame]:
        """Yield the frame that was still open when the stream ended."""
        yield from self.feed(b"\n\n")

    def _take(self, line: bytes) -> Iterator[Frame]:
        if not line:
            if self._data:
                yield Frame(self._event, b"\n".join(self._data))
            self._event, self._data = "", []
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._event = value.decode("utf-8", "replace")
