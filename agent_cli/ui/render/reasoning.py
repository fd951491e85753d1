"""Streaming reasoning of a model: printed line by line, or kept until the user asks for it."""

from collections.abc import Iterable

from agent_cli.protocol.sanitize import Sanitizer

from ..text import lines
from ..text.theme import Theme

_GLIMPSE_ROWS = 2
_GLIMPSE_CHARS = 2000
"""Size of the text used for a glimpse: small, and cut in steps so that the rows stay stable while a line grows."""
_KEEP_CHARS = 1_000_000
"""Maximum number of hidden characters kept for unfolding later."""


class ReasoningView:
    """One stretch of reasoning after another."""

    def __init__(self, keeps: bool) -> None:
        self._keeps = keeps
        """True if the lines are kept, because they are not shown."""
        self._begin()

    def _begin(self) -> None:
        self._sanitizer = Sanitizer()
        self._partial = ""
        self._blank = False
        """True if blank lines are pending: they are dropped at the end of a stretch."""
        self._has_text = False
        self._lines: list[str] = []
        self._chars = 0
        self._since: float | None = None

    @property
    def open(self) -> bool:
        """True if a stretch has begun."""
        return self._since is not None

    @property
    def count(self) -> int:
        """Number of lines kept so far."""
        return len(self._lines)

    def feed(self, text: str, now: float) -> list[str]:
        """Return the lines that a piece finishes; blank lines only between other lines."""
        self._since = now if self._since is None else self._since
        *whole, self._partial = (self._partial + self._sanitizer.feed(text)).split("\n")
        return self._finish_lines(whole)

    def end(self, now: float) -> tuple[list[str], tuple[str, ...], float]:
        """End the stretch; return its remaining lines, all kept lines, and its duration in seconds."""
        rest = self._finish_lines((self._partial + self._sanitizer.feed("", final=True)).split("\n"))
        whole_lines, passed_s = tuple(self._lines), now - (now if self._since is None else self._since)
        self._begin()
        return rest, whole_lines, passed_s

    def _finish_lines(self, whole: list[str]) -> list[str]:
        found: list[str] = []
        for line in whole:
            if line.strip():
                found += ["", line.rstrip()] if self._blank and self._has_text else [line.rstrip()]
                self._has_text, self._blank = True, False
            else:
                self._blank = True
        self._chars += sum(map(len, found))
        if self._keeps and self._chars <= _KEEP_CHARS:
            self._lines += found
        return found

    def glimpse(self, width: int) -> list[str]:
        """Return the newest rows of the unfinished line."""
        start = max(0, len(self._partial) - _GLIMPSE_CHARS) // _GLIMPSE_CHARS * _GLIMPSE_CHARS
        rows = lines.wrap(self._partial[start:].strip(), width)[-_GLIMPSE_ROWS:]
        return [lines.truncate(row, width) for row in rows if row.strip()]


def thought_rows(text: Iterable[str], theme: Theme, width: int) -> list[str]:
    """Return reasoning as rows; they get a mark if the theme has no style for them."""
    mark = "" if theme.codes.get("reasoning") else "~ "
    rows: list[str] = []
    for line in text:
        first, *rest = lines.wrap(line, width - len(mark))
        marked = (mark + first, *(" " * len(mark) + row for row in rest))
        rows += [theme.paint("reasoning", row.rstrip()) for row in marked]
    return rows
