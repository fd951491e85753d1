"""A summary and a comparison as Markdown. Texts of tasks and errors are data: they cannot end a table cell, start
a line or become markup. Pure."""

import re
from collections.abc import Iterable, Mapping

from agent_cli.protocol.sanitize import one_line

from .compare import Comparison
from .summary import Summary, some
from .wording import MEANINGS, Part, Table, parts, parts_of_comparison

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&!])")


def markdown(summary: Summary) -> str:
    """Return the report; all clock measurements are in its last part."""
    return _page(parts(summary))


def markdown_of_comparison(comparison: Comparison) -> str:
    """Return a comparison of two runs."""
    return _page(parts_of_comparison(comparison))


def _page(content: Mapping[str, Part]) -> str:
    shown = [(title, body) for title, part in content.items() if (body := "\n".join(_lines(part)))]
    return "\n".join(f"{'##' if place else '#'} {title}\n\n{body}\n" for place, (title, body) in enumerate(shown))


def _lines(part: Part) -> list[str]:
    if not isinstance(part, Table):
        facts = part.items() if isinstance(part, Mapping) else [(note,) for note in part]
        return [f"* {': '.join(map(_text, fact))}" for fact in facts]
    rows = [_row(map(_cell, row)) for row in part.rows]
    return [_row(map(_text, part.head)), "|---" * len(part.head) + "|", *rows] if rows else []


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: str | tuple[str, ...]) -> str:
    if isinstance(cell, tuple):
        return some([f"`{task}`" for task in cell], 5)
    return cell if cell in MEANINGS else _text(cell)


def _text(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(text))
