"""Rows that begin with a mark: warnings and notes."""

from agent_cli.protocol.sanitize import clean

from ..text import lines
from ..text.theme import Role, Theme


def with_mark(mark: str, role: Role | None, text: str, theme: Theme, width: int) -> list[str]:
    """Return a text of others, broken between words, behind a mark of one column."""
    first, *rest = lines.wrap(clean(text).strip(), width - 2)
    return [f"{theme.paint(role, mark) if role else mark} {first}", *("  " + row for row in rest)]


def warning(text: str, theme: Theme, width: int, mark: str = "!") -> list[str]:
    """Return a warning: its mark has a colour, the words are there to be read."""
    return with_mark(mark, "warning", text, theme, width)


def note(text: str, width: int) -> list[str]:
    """Something to know."""
    first, *rest = lines.wrap(clean(text).strip(), width - 2)
    return [f"· {first}", *("  " + row for row in rest)]
