"""Parse a unified diff: its files, hunks and the lines of either side in them. Pure; the diff comes from git, with
`--no-color`, `core.quotePath=false` and the prefixes `a/` and `b/`."""

import re
from collections.abc import Iterable, Iterator

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex

from .finding import Side

_HUNK = lazy_regex(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)")
_FILE = re.compile(r"^(?=diff --git )", re.MULTILINE)
_MOVED_TO = ("rename to ", "copy to ")


class Hunk(msgspec.Struct, frozen=True):
    """Changed lines with their context."""

    old: range
    new: range
    """Line numbers before and after the change, from 1."""
    removed: frozenset[int]
    added: frozenset[int]

    def holds(self, side: Side, start: int, end: int) -> bool:
        """Return True if a comment on these lines belongs to this hunk; on the old side only removed lines
        count."""
        if side == "RIGHT":
            return start in self.new and end in self.new
        return all(line in self.removed for line in range(start, end + 1)) if end in self.old else False


class FileDiff(msgspec.Struct, frozen=True):
    """The change of a file."""

    path: str
    """Path after the change."""
    old_path: str
    text: str
    """The diff as produced by git, including its header."""
    hunks: tuple[Hunk, ...] = ()
    is_deleted: bool = False

    def holds(self, side: Side, start: int, end: int) -> bool:
        """Return True if one of its hunks contains these lines."""
        return any(hunk.holds(side, start, end) for hunk in self.hunks)


def file_diffs(text: str) -> Iterator[FileDiff]:
    """Yield the files of a diff."""
    for part in _FILE.split(text):
        if part.startswith("diff --git "):
            yield _file(part)


def pieces(change: FileDiff, most_chars: int) -> Iterator[str]:
    """Yield the change of a file as diffs of at most about `most_chars` characters, each with the file's header;
    longer hunks are split."""
    at = change.text.find("\n@@ ") + 1
    if len(change.text) <= most_chars or not at:
        yield change.text
        return
    header, room = change.text[:at], most_chars - at
    kept: list[str] = []
    for lines in _short_hunks(change.text[at:], most_chars // 10):
        size = sum(map(len, lines))
        if kept and size > room:
            yield header + "".join(kept)
            kept, room = [], most_chars - at
        kept += lines
        room -= size
    yield header + "".join(kept)


def first_line(text: str) -> int:
    """Return the first line, after the change, of a diff's first hunk; 0 if there is no hunk."""
    at = text.find("\n@@ ") + 1
    head = _HUNK.match(text, at) if at else None
    return int(head[3]) if head is not None else 0


def _short_hunks(text: str, most_chars: int) -> Iterator[list[str]]:
    """Yield the lines of hunks with their headers; a hunk that is too long is split."""
    for head, rows in _split([f"{line}\n" for line in text.split("\n")[:-1]]):
        lines: list[str] = []
        size, start = 0, (int(head[1]), int(head[3]))
        for line, old, new in rows:
            if size > most_chars and not line.startswith("\\"):
                yield [_head(start, (old, new)), *lines]
                lines, size, start = [], 0, (old, new)
            lines.append(line)
            size += len(line)
        if lines:
            yield [_head(start, (int(head[1]) + _count(head[2]), int(head[3]) + _count(head[4]))), *lines]


def _head(start: tuple[int, int], end: tuple[int, int]) -> str:
    return f"@@ -{start[0]},{end[0] - start[0]} +{start[1]},{end[1] - start[1]} @@\n"


def _file(text: str) -> FileDiff:
    lines = text.split("\n")
    path = old_path = _same_path(lines[0])
    is_deleted = False
    at = 1
    while at < len(lines) and not lines[at].startswith("@@ "):
        line = lines[at]
        is_deleted = is_deleted or line.startswith("deleted file mode")
        if line.startswith(_MOVED_TO):
            path = line.partition(" to ")[2]
        elif line.startswith(("rename from ", "copy from ")):
            old_path = line.partition(" from ")[2]
        at += 1
    hunks = tuple(_hunk(head, rows) for head, rows in _split(lines[at:]))
    return FileDiff(path, old_path, text, hunks, is_deleted)


def _same_path(head: str) -> str:
    """Return the path in `diff --git a/PATH b/PATH`; for a renamed file other lines name both paths."""
    both = head.removeprefix("diff --git ")
    return both[len(both) // 2 + 3 :]


def _split(lines: Iterable[str]) -> "Iterator[tuple[re.Match[str], list[tuple[str, int, int]]]]":
    """Yield the header of each hunk, and its lines with their numbers before and after the change."""
    head: re.Match[str] | None = None
    rows: list[tuple[str, int, int]] = []
    old = new = old_left = new_left = 0
    for line in lines:
        if old_left <= 0 and new_left <= 0 and not line.startswith("\\"):
            if head is not None:
                yield head, rows
            head, rows = _HUNK.match(line), []
            if head is not None:
                old, new, old_left, new_left = int(head[1]), int(head[3]), _count(head[2]), _count(head[4])
            continue
        rows.append((line, old, new))
        if not line.startswith(("+", "\\")):
            old, old_left = old + 1, old_left - 1
        if not line.startswith(("-", "\\")):
            new, new_left = new + 1, new_left - 1
    if head is not None:
        yield head, rows


def _hunk(head: "re.Match[str]", rows: Iterable[tuple[str, int, int]]) -> Hunk:
    old, new = int(head[1]), int(head[3])
    return Hunk(
        range(old, old + _count(head[2])),
        range(new, new + _count(head[4])),
        frozenset(number for line, number, _ in rows if line.startswith("-")),
        frozenset(number for line, _, number in rows if line.startswith("+")),
    )


def _count(text: str | None) -> int:
    return 1 if text is None else int(text)
