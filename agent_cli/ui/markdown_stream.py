"""Markdown that arrives in pieces, cut into blocks that are finished and can be printed for good.

The splitter looks at whole lines only, once each, so its cuts do not depend on how the text was chunked
and its cost is linear. Paragraphs, tables and quotes end at a blank line, list items one by one, and code
inside a fence line by line. What is not finished yet is the tail, for the live region. How a block looks
is the business of a `Blocks`, so nothing heavy is imported here.
"""

import re
from typing import Literal, Protocol

import msgspec

from ..protocol.sanitize import Sanitizer, clean

_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})\s*([^\s`]*)[^`]*$")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")
_RULE = re.compile(r" {0,3}([-*_])( *\1){2,} *$")
_ITEM = re.compile(r" ?(?:[-*+]|(\d{1,9})[.)])(?:\s|$)")

_TAIL_LINES = 40
_TAIL_CHARS = 4000
"""How much of an unfinished block is drawn at most; it bounds the cost of one frame."""


class Blocks(Protocol):
    """How blocks look: text with colours, as lines."""

    def block(self, source: str, width: int, number: int | None) -> list[str]:
        """A Markdown block; `number` counts an ordered list's item."""
        ...

    def code(self, line: str, language: str) -> str:
        """One line inside a code fence."""
        ...


class PlainBlocks:
    """Blocks as they were written."""

    def block(self, source: str, width: int, number: int | None) -> list[str]:
        """The source itself."""
        return source.split("\n")

    def code(self, line: str, language: str) -> str:
        """The line itself."""
        return line


class Segment(msgspec.Struct, frozen=True):
    """One finished piece."""

    kind: Literal["block", "code"]
    source: str
    language: str = ""
    number: int | None = None
    gap: bool = True
    """Whether a blank line comes before it."""


class Splitter:
    """Text in, finished segments out; each line is looked at once."""

    def __init__(self) -> None:
        self._partial = ""
        self._lines: list[str] = []
        self._kind: Literal["", "text", "item", "fence"] = ""
        self._fence = ("", 0)
        self._language = ""
        self._number: int | None = None
        self._gap = False
        self._blank = False
        self._done: list[Segment] = []

    def feed(self, text: str, final: bool = False) -> list[Segment]:
        """The segments that `text` finishes; with `final`, all that is left."""
        *whole, self._partial = (self._partial + text).split("\n")
        for line in whole:
            self._line(line)
        if final:
            if self._partial:
                self._line(self._partial)
            self._commit()
            self._partial, self._kind = "", ""
        done, self._done = self._done, []
        return done

    def tail(self) -> Segment | None:
        """What has not ended yet, as if it ended here."""
        if self._kind == "fence":
            return Segment("code", self._partial, self._language, gap=self._gap) if self._partial else None
        source = "\n".join([*self._lines, self._partial] if self._partial else self._lines)
        source = "\n".join(source[-_TAIL_CHARS:].split("\n")[-_TAIL_LINES:])
        return Segment("block", source, number=self._number, gap=self._gap) if source.strip() else None

    def _line(self, line: str) -> None:
        if self._kind == "fence":
            self._code(line)
        elif not line.strip():
            self._blank = True
            if self._kind == "item":
                self._lines.append("")
            elif self._kind == "text":
                self._commit()
        elif self._kind == "item" and self._belongs(line):
            self._lines.append(line)
            self._blank = False
        else:
            self._start(line)

    def _belongs(self, line: str) -> bool:
        """Whether a line goes on with the open list item."""
        if line.startswith(("  ", "\t")):
            return True
        return not (self._blank or _FENCE.match(line) or _HEADING.match(line) or _ITEM.match(line))

    def _start(self, line: str) -> None:
        item = None if _RULE.match(line) else _ITEM.match(line)
        if item and self._kind == "text" and item.group(1) not in (None, "1"):
            item = None  # "… in\n1984. It was" is no list
        if fence := _FENCE.match(line):
            self._commit()
            self._open(fence)
        elif _HEADING.match(line):
            self._commit()
            self._lines = [line]
            self._commit()
        elif item:
            self._begin_item(line, item.group(1))
        elif self._kind == "text":
            self._lines.append(line)
        else:
            self._commit()
            self._kind, self._lines = "text", [line]
        self._blank = False

    def _begin_item(self, line: str, number: str | None) -> None:
        follows, loose, last = self._kind == "item", self._blank, self._number
        self._commit()
        self._kind, self._lines = "item", [line]
        self._number = None
        if number is not None:
            self._number = last + 1 if follows and last is not None else int(number)
        self._gap = self._gap and (loose or not follows)

    def _open(self, fence: re.Match[str]) -> None:
        self._kind = "fence"
        self._fence = (fence.group(2), len(fence.group(1)))
        self._language = fence.group(3).strip("{}.").lower()

    def _code(self, line: str) -> None:
        marker, indent = self._fence
        stripped = line.strip()
        if len(stripped) >= len(marker) and not stripped.strip(marker[0]) and not line.startswith("    "):
            self._kind, self._gap = "", True
            return
        own = len(line) - len(line.lstrip(" "))
        self._done.append(Segment("code", line[min(indent, own) :], self._language, gap=self._gap))
        self._gap = False

    def _commit(self) -> None:
        source = "\n".join(self._lines).rstrip()
        if source:
            self._done.append(Segment("block", source, number=self._number, gap=self._gap))
            self._gap = True
        self._lines, self._kind, self._number = [], "", None


class MarkdownStream:
    """One answer on its way to the screen."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._sanitizer = Sanitizer()
        self._splitter = Splitter()
        self._done: list[Segment] = []
        self._drawn: tuple[Segment | None, int, list[str]] = (None, 0, [])

    def feed(self, text: str) -> None:
        """Add a piece of the answer; any text at all."""
        self._done += self._splitter.feed(self._sanitizer.feed(text))

    def take(self, width: int, final: bool = False) -> list[str]:
        """The lines that are finished since the last time; with `final`, all that is left."""
        if final:
            self._done += self._splitter.feed(self._sanitizer.feed("", final=True), final=True)
        done, self._done = self._done, []
        return [line for segment in done for line in self._draw(segment, width)]

    def tail(self, width: int) -> list[str]:
        """The unfinished rest as lines, drawn anew only when it has changed."""
        segment = self._splitter.tail()
        if segment is None:
            return []
        if self._drawn[:2] != (segment, width):
            self._drawn = (segment, width, self._draw(segment, width))
        return self._drawn[2]

    def _draw(self, segment: Segment, width: int) -> list[str]:
        if segment.kind == "code":
            drawn = [("  " + self._blocks.code(segment.source, segment.language)).rstrip()]
        else:
            drawn = self._blocks.block(segment.source, max(8, width), segment.number)
        # Markdown can spell any character as an entity, so what was drawn is made safe once more.
        safe = [clean(line, keep_sgr=True) for line in drawn]
        return ["", *safe] if segment.gap else safe
