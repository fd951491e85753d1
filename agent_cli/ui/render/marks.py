"""Rows that begin with a mark: prompts, warnings and notes."""

from collections.abc import Sequence

from agent_cli.protocol.events import QuestionAsked
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.sanitize import clean

from ..text import lines
from ..text.theme import NONE, Role, Theme

_BAR = "▌"
_LOOKS_LIKE_PROMPT = lazy_regex(rf"((?:{lines.SEQUENCE}|\s)*){_BAR}")


def without_bar(row: str) -> str:
    """Return a row that cannot be mistaken for a user prompt, which begins with a bar."""
    return _LOOKS_LIKE_PROMPT.sub(r"\1│", row, count=1) if _BAR in row and _LOOKS_LIKE_PROMPT.match(row) else row


def with_mark(mark: str, role: Role | None, text: str, theme: Theme, width: int) -> list[str]:
    """Return text from elsewhere, sanitized and wrapped, after a mark of one column."""
    first, *rest = lines.wrap(clean(text).strip(), width - 2)
    return [f"{theme.paint(role, mark) if role else mark} {first}", *("  " + row for row in rest)]


def question_rows(event: QuestionAsked, theme: Theme, width: int) -> list[str]:
    """Return a question, with the sub-agent that asks it and its task."""
    name = lines.one_line(event.agent_name, 40)
    asked = f"{name} asks: {event.question}" if name else event.question
    task = [theme.paint("muted", f"  {lines.one_line(event.agent_task, width - 2)}")] if event.agent_task else []
    return [*with_mark("?", "strong", asked, theme, width), *task]


def option_rows(options: Sequence[str], theme: Theme, width: int) -> list[str]:
    """Return the options of a question in full, with their numbers."""
    digits = len(str(len(options)))
    rows: list[str] = []
    for number, option in enumerate(options, 1):
        first, *rest = lines.wrap(lines.one_line(option, max(1, len(option)) * 4), width - digits - 4)
        rows += [f"  {theme.paint('key', str(number).rjust(digits))}  {first}"]
        rows += [f"{' ' * (digits + 4)}{row}" for row in rest]
    return rows


def warning(text: str, theme: Theme, width: int, mark: str = "!") -> list[str]:
    """Return a warning: its mark is coloured, its text plain."""
    return with_mark(mark, "warning", text, theme, width)


def note(text: str, width: int) -> list[str]:
    """Return a note: its mark has no colour."""
    return with_mark("·", None, text, NONE, width)


def prompt_rows(text: list[str], note: str, theme: Theme, is_plain: bool, width: int) -> list[str]:
    """Return a user prompt with a bar, which is easy to find in a long scrollback; in plain mode after `>`. `note`
    goes below it, or after a single line."""
    if is_plain:
        first, *rest = text
        rows, bar = [f"> {first}", *("  " + line for line in rest)], " "
    else:
        bar, note = theme.paint("prompt", _BAR), note and theme.paint("muted", note)
        rows = [f"{bar} {theme.paint('strong', row)}" for line in text for row in lines.wrap(line, width - 2)]
    if note and len(rows) == 1:
        return [f"{rows[0]}  {note}"]
    return [*rows, *([f"{bar} {note}"] if note else [])]
