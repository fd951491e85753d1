"""Long text cut down to a few rows of the screen: what is printed of it, and how much was left out.

Counted in rows at the present width and not in lines, since one line can be longer than the screen. Pure;
apart from the renderer, which decides what is worth how many rows and paints what is left.
"""

import msgspec

from . import lines


class TruncatedText(msgspec.Struct, frozen=True):
    """What remains of a text."""

    kept: tuple[str, ...]
    """Lines, in their order; one that is too long by itself is cut in its middle."""
    hidden: int
    """Lines left out, all at the one end."""
    whole: bool
    """Whether nothing at all was left out."""


def fold(text: list[str], limit: int, width: int, *, last: bool = False, hint: str = "") -> TruncatedText:
    """At most `limit` rows of `text` (one more when that is all of it), from its beginning or its `last` part.

    `hint` says, where a line is cut, how to see the rest.
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
    """`line` in `room` columns: its beginning, how many characters are left out, its end."""
    side = max(1, (room - len(f"… {len(line)} characters{hint} …")) // 2)
    head, tail = line[: lines.fit(line, side)], line[::-1][: lines.fit(line[::-1], side)][::-1]
    return f"{head}… {len(line) - len(head) - len(tail)} characters{hint} …{tail}"
