"""Truncate a long text to a few rows of the screen, and count the omitted lines.

Counts rows at the present width instead of lines, because a single line can be longer than the screen. Pure;
separate from the renderer, which decides on the number of rows and paints the result.
"""

import msgspec

from . import lines


class TruncatedText(msgspec.Struct, frozen=True):
    """The remaining part of a text."""

    kept: tuple[str, ...]
    """Lines in order; a line that is too long by itself is cut in the middle."""
    hidden: int
    """Number of omitted lines, all at one end."""
    whole: bool
    """True if nothing was omitted."""


def fold(text: list[str], limit: int, width: int, *, last: bool = False, hint: str = "") -> TruncatedText:
    """Return at most `limit` rows of `text` (one more if that shows all of it), from its beginning or its `last`
    part.

    `hint` tells how to see the rest, where a line is cut.
    """
    if sum(_rows(line, width) for line in text) <= limit + 1:
        return TruncatedText(tuple(text), 0, True)
    kept: list[str] = []
    room = limit
    for line in reversed(text) if last else text:
        if _rows(line, width) > limit and room > 1:
            line = _cut(line.expandtabs(8), room * width, hint)
        if _rows(line, width) > room:
            break
        kept.append(line)
        room -= _rows(line, width)
    return TruncatedText(tuple(reversed(kept) if last else kept), len(text) - len(kept), False)


def _rows(line: str, width: int) -> int:
    return max(1, -(-lines.cells(line) // max(1, width)))


def _cut(line: str, room: int, hint: str) -> str:
    """Return `line` in `room` columns: its beginning, the number of omitted characters, its end."""
    side = max(1, (room - len(f"… {len(line)} characters{hint} …")) // 2)
    head, tail = line[: lines.fit(line, side)], line[::-1][: lines.fit(line[::-1], side)][::-1]
    return f"{head}… {len(line) - len(head) - len(tail)} characters{hint} …{tail}"
