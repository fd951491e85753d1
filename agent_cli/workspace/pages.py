"""Reading a part of a text file by line numbers, at a cost that does not depend on the size of the file or
the length of its lines: what is not shown is counted and hashed at most, never kept."""

import os

import msgspec

from .encoding import decode, is_binary, kind_of
from .files import MAX_TEXT_BYTES, FileError, chunks, content_hash, open_regular

MAX_LINE = 2000
"""Characters of a line that are shown; the middle of a longer one is left out."""
MAX_CHARS = 50_000
"""Characters of a page."""
_SMALL_BYTES = 4_000_000
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""How UTF-16 files begin, in which a search for line ends would not work."""
_MAX_SCAN_BYTES = 2_000_000_000
_HEAD_PART = 1400
_TAIL_PART = 500


class Page(msgspec.Struct, frozen=True):
    """Some lines of a file."""

    lines: tuple[str, ...]
    """Without line ends, long ones cut."""
    first: int
    """Number of the first line, from 1."""
    total: int | None
    """Lines of the file; None when it is too large to be counted."""
    size_bytes: int
    hash: str | None
    """Content hash; None for a file that is too large to be hashed."""
    encoding: str = "utf-8"
    guessed: bool = False
    crlf: bool = False
    shortened: int = 0
    """Lines whose middle was left out."""


def read_page(real: str, shown: str, first: int, limit: int) -> Page:
    """Lines `first` to `first + limit - 1`, or as many of them as fit a page.

    Raises:
        FileError: not a regular file, not permitted, or not text.
    """
    fd, status = open_regular(real, shown)
    try:
        whole = MAX_TEXT_BYTES if os.pread(fd, 2, 0) in _WIDE_MARKS else _SMALL_BYTES
        if status.st_size <= whole:
            return _page_of(b"".join(chunks(fd, whole * 2)), shown, first, limit)
        return _page_by_scan(fd, status.st_size, shown, first, limit)
    finally:
        os.close(fd)


def _page_of(data: bytes, shown: str, first: int, limit: int) -> Page:
    found = decode(data)
    if found is None:
        raise FileError(not_text(shown, data, len(data)))
    text, codec = found
    lines = text.split("\n" if "\n" in text else "\r")
    if not lines[-1]:
        lines.pop()
    window = _Window(first, limit)
    for line in lines[first - 1 : first - 1 + limit]:
        if window.full:
            break
        window.take(line.removesuffix("\r"), len(line))
    return Page(
        lines=tuple(window.lines),
        first=first,
        total=len(lines),
        size_bytes=len(data),
        hash=content_hash(data),
        encoding=codec.shown,
        guessed=codec.guessed,
        crlf="\r\n" in text,
        shortened=window.shortened,
    )


def not_text(shown: str, data: bytes, size_bytes: int) -> str:
    """Why a file cannot be shown."""
    what = kind_of(data) if is_binary(data) else "text damaged or in an encoding that is not known"
    return f"{shown} is not a text file; it looks like {what} ({size_bytes} bytes)"


def _page_by_scan(fd: int, size_bytes: int, shown: str, first: int, limit: int) -> Page:
    import hashlib

    hasher = hashlib.blake2b(digest_size=16) if size_bytes <= MAX_TEXT_BYTES else None
    scan = _Scan(first, limit)
    for chunk in chunks(fd, _MAX_SCAN_BYTES):
        if not scan.bytes_seen and b"\0" in chunk[:65536]:
            raise FileError(not_text(shown, chunk, size_bytes))
        scan.feed(chunk)
        if hasher:
            hasher.update(chunk)
        if scan.window.full and scan.bytes_seen > MAX_TEXT_BYTES:
            break
    scan.end()
    whole = scan.bytes_seen >= size_bytes
    broken = any("\ufffd" in line for line in scan.window.lines)
    return Page(
        lines=tuple(scan.window.lines),
        first=first,
        total=scan.breaks + scan.unfinished if whole else None,
        size_bytes=size_bytes,
        hash=hasher.hexdigest() if hasher and whole else None,
        encoding="utf-8 with \ufffd for what is not" if broken else "utf-8",
        guessed=broken,
        crlf=scan.crlf,
        shortened=scan.window.shortened,
    )


class _Window:
    """The lines to show, until the page is full."""

    def __init__(self, first: int, limit: int) -> None:
        self.lines: list[str] = []
        self.shortened = 0
        self.full = limit <= 0
        self._first = first
        self._limit = limit
        self._room = MAX_CHARS

    def take(self, line: str, length: int, tail: str = "") -> None:
        """Add a line of `length`; of a long one `line` may hold the start only, and `tail` the end."""
        if length > MAX_LINE:
            tail = (tail or line)[-_TAIL_PART:]
            cut = length - _HEAD_PART - len(tail)
            line = f"{line[:_HEAD_PART]} […{cut} characters left out…] {tail}"
            self.shortened += 1
        self.lines.append(line)
        self._room -= len(line) + 1
        self.full = len(self.lines) >= self._limit or self._room <= MAX_LINE


class _Scan:
    """Counts lines in a stream of bytes and takes those of the window."""

    def __init__(self, first: int, limit: int) -> None:
        self.window = _Window(first, limit)
        self.bytes_seen = 0
        self.breaks = 0
        self.unfinished = 0
        """1 when the last line has no line end, else 0."""
        self.crlf = False
        self._first = first
        self._head = b""
        self._tail = b""
        self._length = 0

    def feed(self, chunk: bytes) -> None:
        self.bytes_seen += len(chunk)
        self.unfinished = int(not chunk.endswith(b"\n"))
        breaks = chunk.count(b"\n")
        if self.window.full or self.breaks + breaks + 1 < self._first:
            self.breaks += breaks
            return
        *finished, rest = chunk.split(b"\n")
        for piece in finished:
            self._add(piece)
            self._finish_line()
        self._add(rest)

    def end(self) -> None:
        """No more bytes: a last line without line end counts."""
        if self.unfinished and self._length:
            self._finish_line()
            self.breaks -= 1

    def _add(self, piece: bytes) -> None:
        if self.breaks + 1 < self._first or self.window.full:
            return
        self._length += len(piece)
        if len(self._head) <= MAX_LINE:
            self._head += piece[: MAX_LINE + 1]
        self._tail = (self._tail + piece[-_TAIL_PART:])[-_TAIL_PART:]

    def _finish_line(self) -> None:
        self.breaks += 1
        if self.breaks < self._first or self.window.full:
            return
        head, tail = (part.decode("utf-8", "replace") for part in (self._head, self._tail))
        self.crlf = self.crlf or tail.endswith("\r")
        self.window.take(head.removesuffix("\r"), self._length, tail.removesuffix("\r"))
        self._head, self._tail, self._length = b"", b"", 0
