"""Mask a stream: however a text is cut into pieces, the result equals that for the whole text. Separate from
`redactor`, since only this module must know what incomplete text may become."""

import re
from typing import TYPE_CHECKING

from agent_cli.protocol.lazy_regex import lazy_regex

from . import patterns as shapes
from .detect import open_key_block, open_values
from .span import Span, mask_spans

if TYPE_CHECKING:
    from .redactor import Redactor

_MAX_HELD = 8192
"""Maximum number of characters of an incomplete token to hold back."""
_MAX_HELD_KEY = 16384
"""The same limit for a private key."""
_SHORT_PIECE = 200
_NEAR = 16
"""Maximum distance in characters between a separator and its value."""

_BEARER = lazy_regex("[eE][aA][rR][eE][rR]")
_KEY_GOES_ON = lazy_regex(r"[\n-]")
_DELIMITER = lazy_regex(f"[{re.escape(shapes.DELIMITERS)}]")


class Masking:
    """Masks a text as it arrives. Text that may be part of a secret is held back: at most the unfinished last
    token, and all of a private key. Only a token of more than 8192 characters is masked differently depending
    on the cut."""

    def __init__(self, redactor: "Redactor", assignments: bool) -> None:
        self._redactor = redactor
        self._assignments = assignments
        self._line = ""
        """The unfinished last line of the output so far, unmasked."""
        self._recognized: list[Span] = []
        """The secrets in that line. It may begin in the middle of one, which could not be recognized any more."""
        self._held = ""
        self._light = True
        """True if the held-back text is at most the start of a known value and a few characters."""
        self._awaited: re.Pattern[str] | None = None
        """Pattern that must arrive before the held-back text can be decided."""
        self._most = _MAX_HELD

    @property
    def idle(self) -> bool:
        """True if nothing is held back."""
        return not self._held

    def feed(self, text: str, final: bool = False) -> str:
        """Return the masked text that can be output after adding `text`. `final` marks the end and releases
        everything."""
        if not final and len(text) < _SHORT_PIECE:
            if self._light and (told := self._safe_prefix_length(piece := self._held + text)) >= 0:
                self._held = piece[told:]
                self._passed(piece[:told])
                return piece[:told]
            if self._awaited and len(self._held) < self._most and not self._awaited.search(text):
                self._held += text
                return ""
        whole = self._line + self._held + text
        base = len(self._line)
        # What begins in the line so far is known: if that was cut, the rest of a word may look like a token.
        new = (span for span in self._redactor.recognized(whole) if span.start >= base)
        recognized = [*self._recognized, *new]
        spans = self._redactor.spans_with(whole, recognized, self._assignments)
        end = len(whole) if final else self._settled(whole, base, spans)
        shown = mask_spans(whole, spans, base, end)
        self._held = whole[end:]
        self._light = not self._held
        self._line = ""
        start = max(0, end - shapes.LONGEST_CONTEXT)
        self._recognized = _moved([span for span in recognized if span.end <= end], start)
        self._passed(whole[start:end])
        return shown

    def _safe_prefix_length(self, piece: str) -> int:
        """Return the length of a short piece that can be output at once; -1 if it needs a closer look."""
        around = self._line[-_NEAR:] + piece
        if "=" in around or ":" in around or _BEARER.search(around):
            return -1
        if shapes.begin_of_token(around, len(around) - len(piece)) >= 0:
            return -1
        return self._redactor.safe_prefix_length(piece)

    def _passed(self, text: str) -> None:
        line = self._line + text
        start = line.rfind("\n") + 1 if "\n" in text else 0
        if len(line) - start > 2 * shapes.LONGEST_CONTEXT:
            start = len(line) - shapes.LONGEST_CONTEXT
        self._line = line[start:]
        if start and self._recognized:
            self._recognized = _moved(self._recognized, start)

    def _settled(self, text: str, base: int, spans: list[Span]) -> int:
        """Return the length of `text` that is decided, given its spans so far."""
        token = max(base, *(text.rfind(delimiter) + 1 for delimiter in shapes.DELIMITERS))
        token = max(token, len(text) - _MAX_HELD)  # one that began before is released
        begun = shapes.begin_of_token(text, token)
        in_token = min(
            begun if begun >= 0 else len(text),
            min(open_values(text, token, self._assignments), default=len(text)),
        )
        end = min(in_token, self._redactor.possible_secret_start(text, base))
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


def _moved(spans: list[Span], start: int) -> list[Span]:
    """Return the spans that a text without its first `start` characters has."""
    return [
        span._replace(start=max(0, span.start - start), end=span.end - start) for span in spans if span.end > start
    ]
