"""A growing paragraph: rows that later text cannot change are kept, so that a frame draws only its end."""

import re

from markdown_it.token import Token as Mark

from ..text.styled_text import StyledText, row, wrap_text
from ..text.theme import Theme
from .inline import inline, read

_MAY_SPAN = re.compile(r"[\\&$]")
"""Characters that may begin a formula, or an entity for a character that overwrites others."""
_MAY_OPEN = re.compile(r"[\[`*_~]")
"""Characters in plain text that may still open markup."""
_POWER = re.compile(r"\*\*[0-9]")
"""The parsing of its asterisks depends on all text before them."""


class Paragraph:
    """The paragraph drawn last."""

    def __init__(self, theme: Theme, width: int) -> None:
        self._theme, self._width = theme, width
        self._source = ""
        self._settled = ""
        """Source that is not parsed again; ends before a blank."""
        self._rows: list[str] = []
        """Rows of the settled source except the last."""
        self._last = StyledText()
        """The last row of the settled source, which can still grow."""
        self._tried = 1
        """Number of unsettled rows at the last attempt to settle more."""

    def goes_on(self, source: str, width: int, theme: Theme) -> bool:
        """Return True if a source is this paragraph with more text, at the same width and theme."""
        return (
            (width, theme) == (self._width, self._theme)
            and source.startswith(self._source)
            and not _POWER.search(source, len(self._settled))
        )

    def rows(self, source: str) -> list[str]:
        """Return the rows of the whole paragraph."""
        self._source, rest = source, source[len(self._settled) :]
        before, lines = self._rows, self._lines(_marks(rest))
        if len(lines) > self._tried:
            self._tried = len(lines)
            self._settle(rest)
        return [*before, *map(row, lines)]

    def _lines(self, marks: list[Mark]) -> list[StyledText]:
        return wrap_text(self._last + inline(marks, self._theme), self._width)

    def _settle(self, rest: str) -> None:
        """Keep the rows up to the last word, unless later text may change how they are parsed."""
        done = rest.rpartition(" ")[0]
        if not done or done != done.rstrip() or _MAY_SPAN.search(done):
            return
        marks = _marks(done)
        if any(mark.type == "text" and _MAY_OPEN.search(mark.content) for mark in marks):
            return
        *lines, last = self._lines(marks)
        if marks[-1].type not in ("code_inline", "image"):  # whose trailing blanks count
            self._settled, self._last, self._tried = self._settled + done, last, 1
            self._rows = [*self._rows, *map(row, lines)]


def _marks(source: str) -> list[Mark]:
    return read(Mark("inline", "", 0, content=source, children=[]))
