"""Replace secrets by their names: `[masked: DB_PASSWORD]` for known values, `[masked: GitHub token]` for text with
the shape of a secret.

`Redactor.spans` finds secrets in a whole text, `Redactor.stream` is for text that arrives in pieces. Pure; a
separate package because display, logs and requests all need it. It prevents accidental leaks and is no security
boundary: an attacker can write a secret backwards. The tables of shapes are loaded when first needed.
"""

import base64
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

from agent_cli.protocol.lazy_regex import lazy_regex

from .fingerprints import Recognizer
from .span import Span, entropy, mask_spans

if TYPE_CHECKING:
    from .streaming import Masking

PLACEHOLDER = lazy_regex(r"\[masked: [^\]\n]{1,100}\]")
"""The placeholder for a secret."""

_SHORTEST = 8
_LOWEST_ENTROPY = 2.5
_LONGEST_LINE = 4096
_TOO_COMMON = frozenset(
    "changeme change_me change-me password passw0rd password1 password123 12345678 123456789 1234567890 "
    "undefined disabled required optional localhost username postgres".split()
)
_WORDS = lazy_regex(r"(?:[a-z]+|[A-Z]+|[A-Z][a-z]+)(?:[-_. /](?:[a-z]+|[A-Z]+|[A-Z][a-z]+))*")
_LONG_FOR_WORDS = 20
"""Words without a digit, such as `development`, count as a secret only from this length."""
_GRAM = 3
_SHORT_TEXT = 2_000
_MAY_HOLD = lazy_regex(
    r"[\w+-]{16}|[=@]|:[ \t]{0,3}\\?[\"']|://|-----|eyJ|:AA|xox[abeprs][-.]|xapp-|(?i:authorization|bearer|api-key)"
)
"""Matches every text that can contain the shape of a secret; otherwise the tables need not be loaded."""


def is_worth_masking(value: str) -> bool:
    """Return True if a known value is distinctive enough to be masked wherever it occurs: not short, not a common
    word."""
    if len(value) < _SHORTEST or value.lower() in _TOO_COMMON:
        return False
    if len(value) < _LONG_FOR_WORDS and _WORDS.fullmatch(value):
        return False
    return entropy(value) > _LOWEST_ENTROPY


def secret_lines(known: Mapping[str, str]) -> dict[str, str]:
    """Return the lines to mask wherever they occur, each with the name shown instead; `known` are values by
    name."""
    found: dict[str, str] = {}
    for name, value in known.items():
        shown = re.sub(r"[^\w.:/ -]", "_", name)[:100] or "secret"
        for line in {value.strip(), *(line.strip() for line in value.splitlines())}:
            if is_worth_masking(line) and len(line) <= _LONGEST_LINE:
                found.setdefault(line, shown)
    return found


class Redactor:
    """Masks the secrets of a run: the `known` values by name, those of earlier runs, and tokens with a
    recognizable shape."""

    def __init__(self, known: Mapping[str, str] | None = None, earlier: Recognizer | None = None) -> None:
        lines, self._earlier = (earlier or Recognizer()).apart(secret_lines(known or {}))
        found: dict[str, str] = {}
        for line, shown in lines.items():
            for form in forms(line):
                found.setdefault(form, shown)
        self._forms = tuple(found.items())
        self._sorted = sorted(found)
        self._longest = max(map(len, found), default=0)
        self._grams = frozenset(form[:_GRAM] for form in found)
        self._short_grams = frozenset(form[:size] for form in found for size in range(1, _GRAM))

    def mask(self, text: str, assignments: bool = False) -> str:
        """Return the text with its secrets masked; with `assignments` also values such as in `PASSWORD=…`."""
        spans = self.spans(text, assignments)
        return mask_spans(text, spans, 0, len(text)) if spans else text

    def stream(self, assignments: bool = False) -> "Masking":
        """Return the equivalent for a text that arrives in pieces."""
        from .streaming import Masking

        return Masking(self, assignments)

    def spans(self, text: str, assignments: bool = False) -> list[Span]:
        """Return the secrets in a text, in order; overlapping ones are merged under the name of the first."""
        if len(text) < _SHORTEST:
            return []
        if not assignments and len(text) < _SHORT_TEXT and not _MAY_HOLD.search(text):
            return _merged(list(self._known(text)))
        return self.spans_with(text, self.recognized(text), assignments)

    def recognized(self, text: str) -> list[Span]:
        """Return the secrets in a text that are known or have a shape of their own."""
        from . import detect, token_shapes

        return [*self._known(text), *token_shapes.tokens(text), *detect.key_blocks(text)]

    def spans_with(self, text: str, recognized: list[Span], assignments: bool) -> list[Span]:
        """Return these secrets and those that are secret because of the text before them, as `spans` does."""
        from . import detect

        return _merged([*recognized, *detect.in_context(text, assignments, tuple(recognized))])

    def _known(self, text: str) -> Iterator[Span]:
        for form, name in self._forms:
            at = text.find(form)
            while at >= 0:
                yield Span(at, at + len(form), name)
                at = text.find(form, at + 1)
        yield from self._earlier.spans(text)

    def possible_secret_start(self, text: str, start: int) -> int:
        """Return the position, from `start` on, at which the end of `text` may be the start of a known value; its
        length if none."""
        return min(self._earlier.possible_secret_start(text, start), self._possible_secret_start(text, start))

    def _possible_secret_start(self, text: str, start: int) -> int:
        size = len(text)
        for at in range(max(start, size - self._longest + 1), size):
            gram = text[at : at + _GRAM]
            if gram in self._grams or gram in self._short_grams:
                rest = text[at:]
                place = bisect_left(self._sorted, rest)
                if place < len(self._sorted) and self._sorted[place] == rest:
                    place += 1
                if place < len(self._sorted) and self._sorted[place].startswith(rest):
                    return at
        return size

    def safe_prefix_length(self, text: str) -> int:
        """Return the length of the prefix of a short text that certainly contains no part of a known value; -1 if
        uncertain."""
        return min(self._earlier.safe_prefix_length(text), self._safe_prefix_length(text))

    def _safe_prefix_length(self, text: str) -> int:
        grams, size = self._grams, len(text)
        for at in range(size - _GRAM + 1):
            if text[at : at + _GRAM] in grams:
                return -1
        for left in range(min(_GRAM - 1, size), 0, -1):
            if text[size - left :] in self._short_grams:
                return size - left
        return size


def _merged(found: list[Span]) -> list[Span]:
    found.sort(key=lambda span: (span.start, -span.end))
    merged = found[:1]
    for span in found[1:]:
        last = merged[-1]
        if span.start >= last.end:
            merged.append(span)
        elif span.end > last.end:
            merged[-1] = last._replace(end=span.end)
    return merged


def forms(value: str) -> set[str]:
    """Return the encodings of a value to search for."""
    import json

    data = value.encode("utf-8", "surrogatepass")
    written = {value, quote(value, safe="", errors="replace"), quote_plus(value, errors="replace")}
    written |= {
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        data.hex(),
        data.hex().upper(),
    }
    for shift, unsure in ((0, 0), (1, 2), (2, 3)):  # the encoding depends on the offset modulo three
        shifted = bytes(shift) + data
        whole = base64.b64encode(shifted).decode("ascii").rstrip("=")
        sure = whole[unsure : len(whole) - bool(len(shifted) % 3)]
        written |= {sure, sure.replace("+", "-").replace("/", "_")}
    return {form for form in written if len(form) >= _SHORTEST}
