"""Split streaming Markdown into finished blocks that can be printed permanently.

The splitter looks only at whole lines, once each, so its result does not depend on how the text was chunked and
its cost is linear. Paragraphs, tables and quotes end at a blank line, list items one by one, and fenced code line
by line, in a list too. The unfinished rest is the tail, for the live region. Rendering is left to a `Blocks`, so
nothing heavy is imported here.
"""

import re
from typing import Literal, Protocol

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.sanitize import Sanitizer

_FENCE = lazy_regex(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})(.*)$")
_HEADING = lazy_regex(r" {0,3}#{1,6}(\s|$)")
_RULE = lazy_regex(r" {0,3}([-*_])( *\1){2,} *$")
_ITEM = lazy_regex(r"( {0,3})(?:[-*+]|(\d{1,9})[.)])(?:\s+|$)")
_LANGUAGE = lazy_regex(r"[\s{.]*([\w+#-]+)")
_TABLE_RULE = lazy_regex(r"[ |:-]*-[ |:-]*$")

_TAIL_LINES = 40
_TAIL_CHARS = 4000
"""Limits for the unfinished block that is drawn; they bound the cost of a frame."""


class Code(Protocol):
    """Renders the lines of a fenced code block, in order."""

    def line(self, text: str) -> str:
        """Return the next line."""

    def partial_line(self, text: str) -> str:
        """Return the unfinished next line."""


class Blocks(Protocol):
    """Renders blocks as coloured lines of text."""

    def block(self, source: str, width: int, number: int | None) -> list[str]:
        """Return a Markdown block; `number` is the number of an ordered list's item."""

    def fence(self, line: str) -> list[str]:
        """Return the rows for the first or the last line of a fence."""

    def code(self, language: str) -> Code:
        """Return the renderer of a fenced code block."""


class PlainBlocks:
    """Blocks as written."""

    def block(self, source: str, width: int, number: int | None) -> list[str]:
        """Return the source itself."""
        return source.split("\n")

    def fence(self, line: str) -> list[str]:
        """Return the line itself."""
        return [line]

    def code(self, language: str) -> "PlainBlocks":
        """Return this object, which renders any code."""
        return self

    def line(self, text: str) -> str:
        """Return the line itself."""
        return text

    partial_line = line


class Segment(msgspec.Struct, frozen=True):
    """A finished segment."""

    kind: Literal["block", "open", "code", "close"]
    """A Markdown block, or a line of a fence."""
    source: str
    language: str = ""
    number: int | None = None
    gap: bool = False
    """True if a blank line precedes the segment."""
    indent: int = 0
    """Indent in columns, for a segment that continues a list item."""


class Splitter:
    """Text in, finished segments out; each line is scanned once."""

    def __init__(self) -> None:
        self._partial = ""
        self._lines: list[str] = []
        self._kind: Literal["", "text", "item"] = ""
        self._fence: tuple[str, int] | None = None
        """Delimiter of the open fence, and its indent."""
        self._base = 0
        """Indent of the open item's marker."""
        self._indent = 0
        """Indent of the open block, if it continues an item."""
        self._number: int | None = None
        """Number of the open item."""
        self._gap = False
        self._blank = False
        self._done: list[Segment] = []

    def feed(self, text: str, final: bool = False) -> list[Segment]:
        """Return the segments that `text` finishes; with `final`, all remaining ones."""
        *whole, self._partial = (self._partial + text).split("\n")
        for line in whole:
            self._line(line)
        if final:
            if self._partial:
                self._line(self._partial)
            self._commit()
            self._partial, self._fence = "", None
        done, self._done = self._done, []
        return done

    def tail(self) -> Segment | None:
        """Return the unfinished segment, as if it ended here."""
        if self._fence:
            return Segment("code", self._dedented(self._partial)) if self._partial else None
        partial = [] if not self._partial or _FENCE.match(self._partial.strip()) else [self._partial]
        source = _end([*self._lines, *partial])
        if not source.strip():
            return None
        number = None if self._indent else self._number
        return Segment("block", source, number=number, gap=self._gap, indent=self._indent)

    def _line(self, line: str) -> None:
        if self._fence:
            self._code(line)
        elif not line.strip():
            self._blank = True
            if self._kind == "item":
                self._lines += [""] if self._lines else []
            elif self._kind == "text":
                self._commit()
        elif self._kind == "item" and self._belongs(line):
            self._in_item(line)
        else:
            self._start(line)

    def _belongs(self, line: str) -> bool:
        """Return True if a line continues the open list item."""
        if _indent(line) >= self._base + 2:
            return True
        starts = _FENCE.match(line) or _HEADING.match(line) or _ITEM.match(line)
        return bool(self._lines) and not (self._blank or starts)

    def _in_item(self, line: str) -> None:
        own = _indent(line)
        if fence := _FENCE.match(line.lstrip()):
            self._emit()
            self._open(fence, own, self._blank)
            return
        if not self._lines:
            self._indent, self._gap = own, self._blank
        elif own < self._indent:
            self._emit()
            self._indent, self._gap = own, self._blank
        self._lines.append(_expanded(line, self._indent)[self._indent :])
        self._blank = False

    def _start(self, line: str) -> None:
        item = None if _RULE.match(line) else _ITEM.match(line)
        if item and self._kind == "text" and (item[2] not in (None, "1") or item.end() == len(line)):
            item = None  # "… in\n1984. It was" is not a list
        if fence := _FENCE.match(line):
            self._commit()
            self._open(fence, len(fence[1]), self._gap)
        elif _HEADING.match(line):
            self._commit()
            self._lines = [line]
            self._commit()
        elif item:
            self._begin_item(line, item)
        elif self._kind == "text":
            self._lines.append(line)
        else:
            self._commit()
            self._kind, self._lines = "text", [line]
        self._blank = False

    def _begin_item(self, line: str, item: re.Match[str]) -> None:
        follows, loose, last = self._kind == "item", self._blank, self._number
        self._commit()
        self._kind, self._lines, self._base = "item", [line], len(item[1])
        if item[2] is not None:
            self._number = max(int(item[2]), last + 1) if follows and last is not None else int(item[2])
        self._gap = self._gap and (loose or not follows)
        if fence := _FENCE.match(line[item.end() :]):
            self._lines = [line[: item.end()]]
            self._emit()
            self._open(fence, item.end(), False)

    def _open(self, fence: re.Match[str], indent: int, gap: bool) -> None:
        self._fence = (fence[2], indent)
        self._done.append(Segment("open", fence[0].strip(), language(fence[3]), gap=gap))
        self._blank = False

    def _code(self, line: str) -> None:
        assert self._fence
        marker, indent = self._fence
        stripped = line.strip()
        if len(stripped) >= len(marker) and not stripped.strip(marker[0]) and _indent(line) < indent + 4:
            self._done.append(Segment("close", stripped))
            self._fence, self._gap = None, True
        else:
            self._done.append(Segment("code", self._dedented(line)))

    def _dedented(self, line: str) -> str:
        indent = self._fence[1] if self._fence else 0
        line = _expanded(line, indent)
        return line[min(indent, len(line) - len(line.lstrip(" "))) :]

    def _emit(self) -> None:
        """Finish the open block; its list item may continue."""
        source = "\n".join(self._lines).rstrip()
        if source:
            number = None if self._indent else self._number
            self._done.append(Segment("block", source, number=number, gap=self._gap, indent=self._indent))
            self._gap = True
        self._lines = []

    def _commit(self) -> None:
        self._emit()
        self._kind, self._number, self._indent = "", None, 0


def language(info: str) -> str:
    """Return the language of a fence's info string: `py` for `py`, `{.py}`, `py,ignore` and `py:src/x.py`."""
    found = _LANGUAGE.match(info)
    return found[1].lower() if found else ""


def _indent(line: str) -> int:
    start = line[: len(line) - len(line.lstrip())]
    return len(start.expandtabs(4))


def _expanded(line: str, indent: int) -> str:
    """Expand the tabs of `line` if they are part of the indent to be removed."""
    return line.expandtabs(4) if "\t" in line[:indent] else line


def _end(lines: list[str]) -> str:
    """Return the end of an unfinished block, with the header if it is a table."""
    is_table = len(lines) > _TAIL_LINES and "|" in lines[0] and _TABLE_RULE.match(lines[1])
    shown = "\n".join([*lines[:2], *lines[2:][-_TAIL_LINES:]] if is_table else lines[-_TAIL_LINES:])
    return shown if len(shown) <= _TAIL_CHARS else shown[-_TAIL_CHARS:]


class MarkdownStream:
    """Renders a streaming answer."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._sanitizer = Sanitizer()
        self._splitter = Splitter()
        self._done: list[Segment] = []
        self._code: Code | None = None
        self._drawn: tuple[Segment | None, int, list[str]] = (None, 0, [])

    def feed(self, text: str) -> None:
        """Add a piece of the answer; any text is accepted."""
        self._done += self._splitter.feed(self._sanitizer.feed(text))

    def take(self, width: int, final: bool = False) -> list[str]:
        """Return the lines finished since the last call; with `final`, all remaining ones."""
        if final:
            self._done += self._splitter.feed(self._sanitizer.feed("", final=True), final=True)
        done, self._done = self._done, []
        return [line for segment in done for line in self._draw(segment, width)]

    def tail(self, width: int) -> list[str]:
        """Return the unfinished rest as lines, redrawn only if it has changed."""
        segment = self._splitter.tail()
        if segment is None:
            return []
        if self._drawn[:2] != (segment, width):
            self._drawn = (segment, width, self._draw(segment, width, unfinished=True))
        return self._drawn[2]

    def redraw(self) -> None:
        """Redraw the tail: the blocks have changed their look."""
        self._drawn = (None, 0, [])

    def _draw(self, segment: Segment, width: int, unfinished: bool = False) -> list[str]:
        indent = " " * segment.indent
        rows = [f"{indent}{row}".rstrip() for row in self._rows(segment, width, unfinished)]
        return ["", *rows] if segment.gap else rows

    def _rows(self, segment: Segment, width: int, unfinished: bool) -> list[str]:
        if segment.kind == "block":
            try:
                return self._blocks.block(segment.source, max(8, width - segment.indent), segment.number)
            except Exception:  # show a block that cannot be drawn as it was written
                return segment.source.split("\n")
        if segment.kind == "open":
            self._code = self._blocks.code(segment.language)
        if segment.kind != "code":
            return self._blocks.fence(segment.source)
        if self._code is None:
            return [segment.source]
        return [self._code.partial_line(segment.source) if unfinished else self._code.line(segment.source)]
