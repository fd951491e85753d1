"""The table of formats."""

from collections.abc import Callable

from ..finding import Review
from .text import text_lines


def rendered(review: Review, format: str) -> str:
    """Return a review in one of `FORMATS`, with a line end behind it."""
    return _FORMATS[format](review)


def _text(review: Review) -> str:
    return "".join(f"{line}\n" for line in text_lines(review))


_FORMATS: dict[str, Callable[[Review], str]] = {"text": _text}
FORMATS = tuple(_FORMATS)
