"""The streaming form of masking: a text that arrives in pieces comes out as the whole text would, however it was
cut. Apart from `redactor`, since only this must know what a text may still become.
"""

import re
from typing import TYPE_CHECKING

from agent_cli.protocol.lazy_regex import lazy_regex

from . import patterns as shapes
from .detect import open_key_block, open_values
from .span import Span, mask_spans

if TYPE_CHECKING:
    from .redactor import Redactor

_MAX_HELD = 8192
"""Characters of an unfinished token that are held back at most."""
_MAX_HELD_KEY = 16384
"""And of a private key."""
_SHORT_PIECE = 200
_NEAR = 16
"""Within so many characters a separator stands before a value."""

_BEARER = lazy_regex("[eE][aA][rR][eE][rR]")
_KEY_GOES_ON = lazy_regex(r"[\n-]")
_DELIMITER = lazy_regex(f"[{re.escape(shapes.DELIMITERS)}]")


class Masking:
    """A text masked as it arrives. What may still turn out to be part of a secret is held back: the unfinished
    last token at most, of a private key all of it. Only a token of more than 8192 characters depends on the cut.
    """

    def __init__(self, redactor: "Redactor", assignments: bool) -> None:
        self._redactor = redactor
        self._assignments = assignments
        self._line = ""
        """The end of what went out, as it was, of the line that is not finished."""
        self._held = ""
        self._light = True
        """What is held is at most the beginning of a known value, and a few characters."""
        self._awaited: re.Pattern[str] | None = None
        """What must come before anything can be said of what is held."""
        self._most = _MAX_HELD

    @property
    def idle(self) -> bool:
        """Whether nothing is held back."""
        return not self._held

    def feed(self, text: str, final: bool = False) -> str:
        """Return the masked text that `text` adds. `final` says that no more comes, and releases all."""
        if not final and len(text) < _SHORT_PIECE:
            if self._light and (told := self._innocent(piece := self._held + text)) >= 0:
                self._held = piece[told:]
                self._passed(piece[:told])
                return piece[:told]
            if self._awaited and len(self._held) < self._most and not self._awaited.search(text):
                self._held += text
                return ""
        whole = self._line + self._held + text
        base = len(self._line)
        spans = self._redactor.spans(whole, self._assignments)
        end = len(whole) if final else self._settled(whole, base, spans)
        shown = mask_spans(whole, spans, base, end)
        self._held = whole[end:]
        self._light = not self._held
        self._line = ""
        self._passed(whole[max(0, end - shapes.LONGEST_CONTEXT) : end])
        return shown

    def _innocent(self, piece: str) -> int:
        """Return how much of a short piece can be told at once; -1 where it needs a closer look."""
        around = self._line[-_NEAR:] + piece
        if "=" in around or ":" in around or _BEARER.search(around):
            return -1
        if shapes.begin_of_token(around, len(around) - len(piece)) >= 0:
            return -1
        return self._redactor.innocent(piece)

    def _passed(self, text: str) -> None:
        line = self._line + text
        if "\n" in text:
            line = line[line.rfind("\n") + 1 :]
        self._line = line if len(line) <= 2 * shapes.LONGEST_CONTEXT else line[-shapes.LONGEST_CONTEXT :]

    def _settled(self, text: str, base: int, spans: list[Span]) -> int:
        """Return how much of `text` can be told for good, given its spans so far."""
        token = max(base, _after_last_delimiter(text))
        begun = shapes.begin_of_token(text, token)
        in_token = min(
            begun if begun >= 0 else len(text),
            min(open_values(text, token, self._assignments), default=len(text)),
        )
        end = min(in_token, self._redactor.begun(text, base))
        if len(text) - end > _MAX_HELD:
            end = len(text)
        self._awaited, self._most = (_DELIMITER if end == in_token < len(text) else None), _MAX_HELD
        block = open_key_block(text, base)
        if block < end and len(text) - block <= _MAX_HELD_KEY:
            end, self._awaited, self._most = block, _KEY_GOES_ON, _MAX_HELD_KEY
        for span in reversed(spans):
            if span.start < end < span.end and len(text) - span.start <= _MAX_HELD_KEY:
                end = max(base, span.start)
        return end


def _after_last_delimiter(text: str) -> int:
    return max(text.rfind(delimiter) for delimiter in shapes.DELIMITERS) + 1
