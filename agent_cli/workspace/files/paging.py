"""Read part of a text file by line numbers. Memory use depends neither on the size of the file nor on the length
of its lines: what is not shown is at most counted and hashed, never kept."""

import codecs
import os
from collections.abc import Iterable, Iterator

import msgspec

from .encoding import BOMS, decode, is_binary, kind_of, reader_of
from .reader import MAX_TEXT_BYTES, FileError, chunks, content_hash, open_regular

PAGE_BYTES = 45_000
"""Default size of a page in bytes of UTF-8, including line numbers."""
MAX_LINE = 2000
"""Maximum characters shown of a line; the middle of a longer one is left out."""
_SMALL_BYTES = 4_000_000
_COUNTED_BYTES = 256_000_000
"""In a larger file, lines are not counted to the end, and the part beyond is not searched."""
_MAX_SCAN_BYTES = 2_000_000_000
_NUMBER_BYTES = 8
_BEYOND = 1 << 62
"""A line that no file has."""


class Page(msgspec.Struct, frozen=True):
    """Some lines of a file."""

    lines: tuple[str, ...]
    """Lines without line endings; long ones shortened."""
    first: int
    """Number of the first line, from 1."""
    total: int | None
    """Total lines of the file; None if it is too large to count."""
    size_bytes: int
    hash: str | None
    """Content hash; None for a file too large to hash."""
    encoding: str = "utf-8"
    guessed: bool = False
    crlf: bool = False
    shortened: tuple[int, ...] = ()
    """Numbers of the shortened lines."""
    data: bytes | None = None
    """The whole file, if it was read at once."""


class Part(msgspec.Struct, frozen=True):
    """A part of one line."""

    text: str
    line: int
    column: int
    """Position of the first character, from 1."""
    length: int | None
    """Length of the line in characters; None if it is too long to count."""
    hash: str | None
    """Content hash of the file; None if it was not read entirely."""
    lines: int | None = None
    """Total lines of the file, if counted."""


def read_page(real: str, shown: str, first: int, limit: int, page_bytes: int = PAGE_BYTES) -> Page:
    """Return lines `first` to `first + limit - 1`, or as many as fit a page. A negative `first` counts from the
    end: -1 is the last line.

    Raises:
        FileError: not a regular file, not permitted, not text, or too large to count from the end.
    """
    window = _Window(first, limit, page_bytes)
    fd, status = open_regular(real, shown)
    try:
        if status.st_size <= _SMALL_BYTES:
            return _page_of(b"".join(chunks(fd, _SMALL_BYTES * 2)), shown, window)
        if first < 0:
            if status.st_size > _COUNTED_BYTES:
                raise FileError(f"{shown} is too large to count its lines from the end; use `tail` in a command")
            window.count_from_start(_page_by_scan(fd, status.st_size, shown, _Window(_BEYOND, 1, 0)).total or 0)
            os.lseek(fd, 0, os.SEEK_SET)
        return _page_by_scan(fd, status.st_size, shown, window)
    finally:
        os.close(fd)


def page_of(data: bytes, shown: str, first: int, limit: int, page_bytes: int = PAGE_BYTES) -> Page:
    """Return a page, as `read_page` does, of text that is already in memory.

    Raises:
        FileError: it is not text.
    """
    return _page_of(data, shown, _Window(first, limit, page_bytes))


def read_part(real: str, shown: str, line: int, column: int, page_bytes: int = PAGE_BYTES) -> Part:
    """Return characters of one line from `column` on, as many as fit a page; none if the line is shorter.

    Raises:
        FileError: as in `read_page`, or there is no such line.
    """
    fd, status = open_regular(real, shown)
    try:
        if status.st_size <= _SMALL_BYTES:
            return _part_of(b"".join(chunks(fd, _SMALL_BYTES * 2)), shown, line, column, page_bytes)
        text, length = _part_by_scan(fd, status.st_size, shown, line, column, page_bytes)
        return Part(text, line, column, length, None)
    finally:
        os.close(fd)


def _page_of(data: bytes, shown: str, window: "_Window") -> Page:
    lines, encoding, guessed, crlf = _lines(data, shown)
    if window.first < 0:
        window.count_from_start(len(lines))
    for line in lines[window.first - 1 : window.first - 1 + window.limit]:
        if window.full:
            break
        window.take(line.removesuffix("\r"), len(line))
    return Page(
        lines=tuple(window.lines),
        first=window.first,
        total=len(lines),
        size_bytes=len(data),
        hash=content_hash(data),
        encoding=encoding,
        guessed=guessed,
        crlf=crlf,
        shortened=tuple(window.shortened),
        data=data,
    )


def _part_of(data: bytes, shown: str, line: int, column: int, page_bytes: int) -> Part:
    lines, _, _, _ = _lines(data, shown)
    if line > len(lines):
        raise FileError(f"{shown} has {len(lines)} line{'s' * (len(lines) != 1)}; there is no line {line}")
    whole = lines[line - 1].removesuffix("\r")
    text = _fitting(whole[column - 1 :], page_bytes)
    return Part(text, line, column, len(whole), content_hash(data), len(lines))


def _lines(data: bytes, shown: str) -> tuple[list[str], str, bool, bool]:
    """Return the lines, with `\\r` if they end in CRLF; the encoding; whether it is a guess; whether CRLF
    occurs."""
    found = decode(data)
    if found is None:
        raise FileError(not_text(shown, data, len(data)))
    text, codec = found
    lines = text.split("\n" if "\n" in text else "\r")
    if not lines[-1]:
        lines.pop()
    return lines, codec.shown, codec.guessed, "\r\n" in text


def not_text(shown: str, data: bytes, size_bytes: int) -> str:
    """Return a message why a file cannot be shown."""
    what = kind_of(data) if is_binary(data) else "text damaged or in an encoding that is not known"
    hint = f". A command such as `{command}` shows it" if (command := reader_of(data)) else ""
    return f"{shown} is not a text file; it looks like {what} ({size_bytes} bytes){hint}"


def _fitting(text: str, size_bytes: int) -> str:
    """Return as much of the beginning as fits `size_bytes` of UTF-8."""
    data = text[:size_bytes].encode("utf-8", "surrogatepass")[:size_bytes]
    return data.decode("utf-8", "ignore")


class _Stream:
    """A large file converted to UTF-8 without a byte order mark, and hashed on the way."""

    def __init__(self, fd: int, size_bytes: int, shown: str) -> None:
        self.seen_bytes = 0
        head = os.pread(fd, 4, 0)
        self._mark, self._codec = next((mark for mark in BOMS if head.startswith(mark[0])), (b"", "utf-8"))
        self._fd = fd
        self._size_bytes = size_bytes
        self._shown = shown
        import hashlib

        self._hasher = hashlib.blake2b(digest_size=16) if size_bytes <= MAX_TEXT_BYTES else None

    def __iter__(self) -> Iterator[bytes]:
        decoder = None if self._codec == "utf-8" else codecs.getincrementaldecoder(self._codec)("replace")
        for chunk in chunks(self._fd, _MAX_SCAN_BYTES):
            if not self.seen_bytes and not self._mark and b"\0" in chunk[:65536]:
                raise FileError(not_text(self._shown, chunk, self._size_bytes))
            if self._hasher:
                self._hasher.update(chunk)
            text = chunk if self.seen_bytes else chunk[len(self._mark) :]
            self.seen_bytes += len(chunk)
            yield decoder.decode(text).encode() if decoder else text

    @property
    def whole(self) -> bool:
        """True if the end was reached."""
        return self.seen_bytes >= self._size_bytes

    @property
    def hash(self) -> str | None:
        return self._hasher.hexdigest() if self._hasher and self.whole else None

    @property
    def encoding(self) -> str:
        return f"{self._codec} with BOM" if self._mark else self._codec


def _page_by_scan(fd: int, size_bytes: int, shown: str, window: "_Window") -> Page:
    stream = _Stream(fd, size_bytes, shown)
    scan = _Scan(window)
    for chunk in stream:
        scan.feed(chunk)
        if window.full and size_bytes > _COUNTED_BYTES:
            break
    scan.end()
    broken = any("\ufffd" in line for line in window.lines)
    return Page(
        lines=tuple(window.lines),
        first=window.first,
        total=scan.breaks + scan.unfinished if stream.whole else None,
        size_bytes=size_bytes,
        hash=stream.hash,
        encoding=f"{stream.encoding} with \ufffd for what is not" if broken else stream.encoding,
        guessed=broken,
        crlf=scan.crlf,
        shortened=tuple(window.shortened),
    )


class _Window:
    """The lines to show, until the page is full."""

    def __init__(self, first: int, limit: int, page_bytes: int) -> None:
        self.lines: list[str] = []
        self.shortened: list[int] = []
        self.full = limit <= 0
        self.first = first
        self.limit = limit
        self.longest = min(MAX_LINE, page_bytes // 8)
        self.tail = self.longest // 4
        self._room = page_bytes

    def count_from_start(self, total: int) -> None:
        """Make a first line that was given from the end one from the start."""
        self.first = max(1, total + 1 + self.first)

    def take(self, line: str, length: int, tail: str = "") -> None:
        """Add a line of `length`. For a long one, `line` may contain only the start, and `tail` the end."""
        if length > self.longest:
            self.shortened.append(self.first + len(self.lines))
            tail = (tail or line)[-self.tail :]
            head = line[: self.longest * 7 // 10]
            line = f"{head} […{length - len(head) - len(tail)} characters left out…] {tail}"
        self.lines.append(line)
        self._room -= _NUMBER_BYTES + (len(line) if line.isascii() else len(line.encode("utf-8", "replace")))
        self.full = len(self.lines) >= self.limit or self._room <= 2 * self.longest


class _Scan:
    """Counts lines in a stream of UTF-8 and passes those in range to the window."""

    def __init__(self, window: _Window) -> None:
        self.window = window
        self.breaks = 0
        self.unfinished = 0
        """1 if the last line has no line ending, else 0."""
        self.crlf = False
        self._head = b""
        self._tail = b""
        self._length = 0

    def feed(self, chunk: bytes) -> None:
        self.unfinished = int(not chunk.endswith(b"\n")) if chunk else self.unfinished
        breaks = chunk.count(b"\n")
        if self.window.full or self.breaks + breaks + 1 < self.window.first:
            self.breaks += breaks
            return
        *finished, rest = chunk.split(b"\n")
        for piece in finished:
            self._add(piece)
            self._finish_line()
        self._add(rest)

    def end(self) -> None:
        """End the stream: a last line without line ending counts."""
        if self.unfinished and self._length:
            self._finish_line()
            self.breaks -= 1

    def _add(self, piece: bytes) -> None:
        if self.breaks + 1 < self.window.first or self.window.full:
            return
        self._length += len(piece)
        keep, tail = 4 * self.window.longest, 4 * self.window.tail
        if len(self._head) <= keep:
            self._head += piece[: keep + 1]
        self._tail = (self._tail + piece[-tail:])[-tail:]

    def _finish_line(self) -> None:
        self.breaks += 1
        if self.breaks < self.window.first or self.window.full:
            return
        head, tail = (part.decode("utf-8", "replace").removesuffix("\r") for part in (self._head, self._tail))
        self.crlf = self.crlf or self._tail.endswith(b"\r")
        complete = len(self._head) == self._length
        self.window.take(head, len(head) if complete else self._length, tail.lstrip("\ufffd"))
        self._head, self._tail, self._length = b"", b"", 0


def _part_by_scan(
    fd: int, size_bytes: int, shown: str, line: int, column: int, page_bytes: int
) -> tuple[str, int | None]:
    """Return the part, and the length of its line in characters."""
    stream = _Stream(fd, size_bytes, shown)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    part, length, ending = "", 0, ""
    for piece in _pieces(stream, line):
        text = decoder.decode(piece)
        ending = text[-1:] or ending
        if length + len(text) >= column and len(part) < page_bytes:
            part += text[max(0, column - 1 - length) :][: page_bytes - len(part)]
        length += len(text)
        if len(part) >= page_bytes and stream.seen_bytes > _COUNTED_BYTES:
            return _fitting(part, page_bytes), None
    if not ending:
        raise FileError(f"{shown} has no line {line} with text in it")
    ends_in_cr = int(ending == "\r")
    return _fitting(part.removesuffix("\r") if len(part) < page_bytes else part, page_bytes), length - ends_in_cr


def _pieces(stream: Iterable[bytes], line: int) -> Iterator[bytes]:
    """Yield the bytes of one line, in the chunks in which they arrive."""
    at_line = 1
    for chunk in stream:
        start = 0
        if at_line < line:
            breaks = chunk.count(b"\n")
            if at_line + breaks < line:
                at_line += breaks
                continue
            while at_line < line:
                start = chunk.index(b"\n", start) + 1
                at_line += 1
        end = chunk.find(b"\n", start)
        if start < len(chunk):
            yield chunk[start:] if end < 0 else chunk[start:end]
        if end >= 0:
            return
