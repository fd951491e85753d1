"""Spans of secrets in a text: shared by detection, masking and the shape tables, and cheap to load."""

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """A secret in a text, and its display name."""

    start: int
    end: int
    name: str


def entropy(text: str) -> float:
    """Return the entropy in bits per character."""
    size = len(text)
    return -sum(count / size * math.log2(count / size) for count in Counter(text).values()) if text else 0.0


def mask_spans(text: str, spans: Iterable[Span], start: int, end: int) -> str:
    """Return `text[start:end]` with its spans masked; a span that starts before `start` has been output
    already."""
    parts: list[str] = []
    at = start
    for span in spans:
        if span.start >= end or span.end <= at:
            continue
        if span.start >= start:
            parts += [text[at : span.start], f"[masked: {span.name}]"]
        at = min(span.end, end)
    parts.append(text[at:end])
    return "".join(parts)
