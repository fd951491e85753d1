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
        self._rest = b""
        self._event = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """The frames this chunk completes."""
        buffer = self._rest + chunk
        if buffer.endswith(b"\r"):  # the LF that may belong to it has not come yet
            self._rest = buffer
            return
        *lines, self._rest = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            yield from self._line(line)

    def flush(self) -> Iterator[Frame]:
        """The frame that was still open when the stream ended."""
        yield from self.feed(b"\n\n")

    def _line(self, line: bytes) -> Iterator[Frame]:
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
