"""A model's reasoning on its way to the screen: line by line as it comes, or whole_lines until it is asked for."""

from collections.abc import Iterable

from agent_cli.protocol.sanitize import Sanitizer

from ..text import lines
from ..text.theme import Theme

_GLIMPSE_ROWS = 2
_GLIMPSE_CHARS = 2000
"""What is looked at for it: not much, and cut so that the rows stand still while a line grows."""
_KEEP_CHARS = 1_000_000
"""How much of what is not shown can be unfolded later."""


class ReasoningView:
    """One stretch of reasoning after another."""

    def __init__(self, keeps: bool) -> None:
        self._keeps = keeps
        """Whether the lines are whole_lines, since nobody has seen them."""
        self._begin()

    def _begin(self) -> None:
        self._sanitizer = Sanitizer()
        self._partial = ""
        self._blank = False
        """Whether blank lines wait to be told from those at the end."""
        self._has_text = False
        self._lines: list[str] = []
        self._chars = 0
        self._since: float | None = None

    @property
    def open(self) -> bool:
        """Whether a stretch has begun."""
        return self._since is not None

    @property
    def count(self) -> int:
        """Lines so far that are whole_lines."""
        return len(self._lines)

    def feed(self, text: str, now: float) -> list[str]:
        """Return the lines that a piece finishes; blank ones only between others."""
        self._since = now if self._since is None else self._since
        *whole, self._partial = (self._partial + self._sanitizer.feed(text)).split("\n")
        return self._finish_lines(whole)

    def end(self, now: float) -> tuple[list[str], tuple[str, ...], float]:
        """Return the stretch is over: what is left of it, all that was whole_lines, and the seconds it took."""
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
        """Return the newest rows of the line that is not finished."""
        start = max(0, len(self._partial) - _GLIMPSE_CHARS) // _GLIMPSE_CHARS * _GLIMPSE_CHARS
        rows = lines.wrap(self._partial[start:].strip(), width)[-_GLIMPSE_ROWS:]
        return [lines.truncate(row, width) for row in rows if row.strip()]


def thought_rows(text: Iterable[str], theme: Theme, width: int) -> list[str]:
    """Reasoning as it is shown; where it has no look of its own, it has a mark."""
    mark = "" if theme.codes.get("reasoning") else "~ "
    rows: list[str] = []
    for line in text:
        first, *rest = lines.wrap(line, width - len(mark))
        marked = (mark + first, *(" " * len(mark) + row for row in rest))
        rows += [theme.paint("reasoning", row.rstrip()) for row in marked]
    return rows
