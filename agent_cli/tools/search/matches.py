"""Parse ripgrep's JSON lines into matches by file and format them for the model: long lines are cut around the
match, and the total size is bounded."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import msgspec

from .ripgrep import printable
from .verify_hits import Stands

_MAX_LINE = 400
_BEFORE_MATCH = 120
_MAX_CHARS = 30_000
_ENDLESS_BYTES = 1_000_000
_Bytes = bytes


class _Text(msgspec.Struct, frozen=True):
    text: str | None = None
    bytes: str | None = None
    """Base64, for text that is not UTF-8."""

    def raw(self) -> "_Bytes":
        if self.bytes is None:
            return (self.text or "").encode()
        import base64

        return base64.b64decode(self.bytes)


class _Span(msgspec.Struct, frozen=True):
    start: int
    end: int


class _Data(msgspec.Struct, frozen=True):
    path: _Text = _Text()
    lines: _Text = _Text()
    line_number: int | None = None
    absolute_offset: int = 0
    submatches: tuple[_Span, ...] = ()


class _Event(msgspec.Struct, frozen=True):
    type: str
    data: _Data = _Data()


class Line(msgspec.Struct, frozen=True):
    """One line of the result."""

    number: int
    text: str
    is_match: bool


class Matches(msgspec.Struct):
    """Lines by file, in search order."""

    files: dict[str, list[Line]]
    count: int = 0
    """Number of matching lines."""
    more: bool = False
    """True if the limit was reached."""
    torn: str = ""
    """The file with a line so long that the output was cut within it."""
    lost: int = 0
    """Number of lines no longer present where they were found."""
    room: int = _MAX_CHARS
    """Characters left for further lines."""

    def render(self, prefix: str) -> list[str]:
        """Return a heading for each file, followed by lines like `12: match` and `13- context`."""
        out: list[str] = []
        for path, lines in self.files.items():
            out.append(printable(prefix + path))
            previous = lines[0].number
            with_context = any(not line.is_match for line in lines)
            for line in lines:
                if with_context and line.number > previous + 1:
                    out.append("--")
                out.append(f"{line.number}{':' if line.is_match else '-'} {line.text}")
                previous = line.number
        return out


def by_path(path: str) -> list[str]:
    """Return a key that sorts paths folder by folder."""
    return path.split("/")


def collect(
    stdout: bytes,
    wanted: Callable[[str], bool] | None,
    limit: int,
    standing: Callable[[str], AbstractContextManager[Stands]] = lambda path: nullcontext(lambda offset, raw: True),
) -> Matches:
    """Return the first `limit` matches in `wanted` files, sorted by path, that are confirmed by `standing`; an
    incomplete last line is dropped."""
    decoder = msgspec.json.Decoder(_Event)
    matches = Matches(files={})
    for path, block in _blocks(stdout, decoder):
        if wanted and not wanted(path):
            continue
        with standing(path) as stands:
            if not _add(matches, path, block, decoder, limit, stands):
                break
    for bare in [path for path, lines in matches.files.items() if not any(line.is_match for line in lines)]:
        del matches.files[bare]
    return matches


def _add(
    matches: Matches, path: str, block: bytes, decoder: "msgspec.json.Decoder[_Event]", limit: int, stands: Stands
) -> bool:
    """Add the lines of one file. Return True if there is room for more."""
    for record in block.split(b"\n")[1:]:
        if not record.startswith((b'{"type":"match"', b'{"type":"context"')):
            continue
        try:
            event = decoder.decode(record)
        except msgspec.DecodeError:
            matches.more = True
            matches.torn = path if len(record) > _ENDLESS_BYTES else ""
            continue
        is_match = event.type == "match"
        if is_match and (matches.count >= limit or matches.room <= 0):
            matches.more = True
            return False
        raw: bytes = event.data.lines.raw()
        if not stands(event.data.absolute_offset, raw):
            matches.lost += 1
            continue
        line = Line(event.data.line_number or 0, _excerpt(raw, event.data), is_match)
        matches.room -= len(line.text) + 8
        matches.count += is_match
        matches.files.setdefault(path, []).append(line)
    return True


def _blocks(stdout: bytes, decoder: "msgspec.json.Decoder[_Event]") -> list[tuple[str, bytes]]:
    """Return the output for each file, which ripgrep writes contiguously, by path."""
    found = []
    for block in (b"\n" + stdout).split(b'\n{"type":"begin",')[1:]:
        try:
            event = decoder.decode(b'{"type":"begin",' + block.split(b"\n", 1)[0])
        except msgspec.DecodeError:
            continue
        found.append((os.fsdecode(event.data.path.raw()).removeprefix("./"), block))
    return sorted(found, key=lambda pair: by_path(pair[0]))


def _excerpt(raw: bytes, data: _Data) -> str:
    """Return the line, or the part of a long one around the first match."""
    start = data.submatches[0].start if data.submatches else 0
    if len(raw) <= _MAX_LINE:
        return _decoded(raw.rstrip(b"\r\n"))
    first = max(0, min(start - _BEFORE_MATCH, len(raw) - _MAX_LINE))
    middle = _decoded(raw[first : first + _MAX_LINE].rstrip(b"\r\n"))
    head = f"[…{first} bytes…] " if first else ""
    left = len(raw) - first - _MAX_LINE
    return f"{head}{middle}{f' […{left} bytes…]' if left > 0 else ''}"


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
