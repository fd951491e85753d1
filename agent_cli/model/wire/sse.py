"""Parser for server-sent events. Written by hand because general line splitters get it wrong: a line ends only at
LF, CR or CRLF, never at U+2028 and similar characters, which models do write."""

import msgspec

from agent_cli.protocol.json_text import BYTE_ORDER_MARK


class Frame(msgspec.Struct, frozen=True):
    """An event of a stream."""

    event: str
    """Event name; empty if the server gives none."""
    data: bytes
    """The `data:` lines joined by newlines."""


class SseParser:
    """Splits a byte stream, in chunks of any size, into frames.

    Source: the WHATWG HTML standard, "Server-sent events", except that an unfinished frame at the end of the
    stream counts, because some servers omit the last empty line.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []
        """Parts of the line that has not ended yet."""
        self._after_cr = False
        """True if a following LF belongs to the CR before it."""
        self._event = ""
        self._data: list[bytes] = []
        self._begun = False
        """True after the first line, which may begin with a byte order mark."""

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames completed by this chunk. Each byte is examined once, however long a line is."""
        if not chunk:
            return []
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._line.append(chunk)
            return []
        lines[0] = b"".join((*self._line, lines[0]))
        self._line = [lines.pop()]
        return self._frames(lines)

    def flush(self) -> list[Frame]:
        """Return the frame still open when the stream ended."""
        return self.feed(b"\n\n")

    def _frames(self, lines: list[bytes]) -> list[Frame]:
        """Return the frames that end with one of these lines."""
        found: list[Frame] = []
        if not self._begun:
            self._begun, lines[0] = True, lines[0].removeprefix(BYTE_ORDER_MARK)
        for line in lines:
            if not line:
                if self._data:
                    found.append(Frame(self._event, b"\n".join(self._data)))
                    self._data = []
                self._event = ""
                continue
            field, _, value = line.partition(b":")
            if field == b"data":
                self._data.append(value.removeprefix(b" "))
            elif field == b"event":
                self._event = value.removeprefix(b" ").decode("utf-8", "replace")
        return found
