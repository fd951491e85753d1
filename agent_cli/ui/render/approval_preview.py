"""The text of approval requests: the question names the call, and content too long for it is printed above.

Separate from the dialogs, because the renderer prints before a dialog is drawn, and both must agree on what is
shown where.
"""

from collections.abc import Sequence

from agent_cli.protocol.events import ApprovalItem
from agent_cli.protocol.sanitize import visible

from ..text import lines
from ..text.theme import Theme
from .live import without_emoji_sequences

_LINES, _CELLS = 4, 160
"""Commands up to this total size are part of the question: they fit on the smallest screen."""
_NAME_CELLS = 160
"""Maximum size of the name of a call that stands only in the question."""
_NEW_FILE = ("--- /dev/null", "A new, empty file.")
_BATCH_MARKS = len("❯ ✓ 10/10 ")
_COMMAND = "$"
"""The label of a tool that runs command lines."""


def commands_in_question(items: Sequence[ApprovalItem]) -> bool:
    """Return True if the commands of a request are in the question itself, and not above it."""
    texts = [_command(item) for item in items if item.preview_kind == "command"]
    rows = [row for text in texts for row in text.split("\n")]
    is_drawn_alike = all(without_emoji_sequences(text) == text and "\t" not in text for text in texts)
    return is_drawn_alike and len(rows) <= _LINES and sum(map(lines.cells, rows)) <= _CELLS


def _command(item: ApprovalItem) -> str:
    return visible(item.preview).rstrip("\n")


def command_rows(item: ApprovalItem, width: int) -> list[str]:
    """Return a command unchanged, in rows of at most `width` columns."""
    return lines.cut(_command(item).split("\n"), width)


def call_name(item: ApprovalItem, limit: int = 200) -> str:
    """Return a short description of a call: `Run make test`, `Edit src/x.py`."""
    if item.preview_kind == "command" and item.label == _COMMAND:
        return lines.one_line(f"Run {item.title}", limit)
    return lines.one_line(f"{_verb(item)} {lines.call_title(item.tool, item.title, limit)}", limit)


def _verb(item: ApprovalItem) -> str:
    if item.preview_kind == "diff" and _only_creates(item.preview):
        return "Create"
    return lines.one_line(item.label, 40) or f"Allow {lines.one_line(item.tool, 40)}"


def is_name_long(item: ApprovalItem) -> bool:
    """Return True if the name of a call is printed above the question, which may then cut it."""
    return lines.cells(call_name(item)) > _NAME_CELLS


def name_rows(item: ApprovalItem, width: int) -> list[str]:
    """Return the name of a call in rows of at most `width` columns; a long one cut to a single row."""
    return [call_name(item, width)] if is_name_long(item) else lines.cut([call_name(item)], width)


def _whole_name(item: ApprovalItem, room: int, width: int) -> list[str]:
    """Return the rows of a call's name, unchanged, if a question with `room` columns for it does not show all of
    it. A command is no name: it is shown anyway."""
    if item.preview_kind == "command" or item.title == item.tool:
        return []
    whole = f"{_verb(item)} {visible(item.title)}".rstrip()
    is_shown = call_name(item) == whole and lines.cells(whole) <= min(room, _NAME_CELLS)
    return [] if is_shown else lines.cut(whole.split("\n"), width)


def _only_creates(diff: str) -> bool:
    """Return True if every file of a diff is new; no content line of a new file can look like a header."""
    return diff.startswith(_NEW_FILE) and all(
        line.startswith(_NEW_FILE) for line in diff.split("\n") if line.startswith("--- ")
    )


def reason(item: ApprovalItem) -> str:
    """Return the reason for asking; for an edit of the workspace without the file, which is named already."""
    path = item.title.partition(", ")[0]
    return "edits need approval" if item.is_edit and item.reason.startswith(f"it changes {path}") else item.reason


def where(item: ApprovalItem) -> str:
    """Return where a command would run: `here`, `in src, outside the sandbox`; empty if unknown."""
    place = {"": "", ".": "here"}.get(item.folder, f"in {lines.one_line(item.folder, 60)}")
    reach = {"network": "with network access", "outside": "outside the sandbox"}.get(item.reach, "")
    return ", ".join(filter(None, (place, reach)))


def question(
    item: ApprovalItem, width: int, *, holds_command: bool, note: str = "", agent: str = ""
) -> tuple[str, list[str]]:
    """Return the question in one line, and the rows of a command that is too long for that line. `note` follows
    the call, such as `(edited)`; `agent` is the sub-agent that makes the call."""
    room = width - lines.cells(asked_by(agent, "Run")) + len("Run")
    asked, rows = _question(item, max(room, 0), width, holds_command=holds_command, note=note)
    return asked_by(agent, asked), rows


def asked_by(agent: str, asked: str) -> str:
    """Prefix a question with the sub-agent that makes the call: `explore-2 wants to run  npm test ?`."""
    if not agent:
        return asked
    name = lines.one_line(agent, 40)
    return f"{name} wants to run{asked.removeprefix('Run')}" if asked.startswith("Run") else f"{name}: {asked}"


def _question(
    item: ApprovalItem, room: int, width: int, *, holds_command: bool, note: str
) -> tuple[str, list[str]]:
    behind = f" {note}" if note else ""
    if item.preview_kind != "command":
        return f"{call_name(item)}{behind}?", []
    place = f" {found}" if (found := where(item)) else ""
    if not holds_command:
        return f"Run the command above{'' if place == ' here' else place}{behind}?", []
    rows = command_rows(item, width - 2)  # indented
    if item.label != _COMMAND:
        return f"{call_name(item)}{behind}?", rows
    whole = f"Run  {rows[0]} {place}{behind}?"
    if len(rows) == 1 and lines.cells(whole) <= room:
        return whole, []
    return f"Run this{place}{behind}?", rows


def render_preview(items: Sequence[ApprovalItem], theme: Theme, width: int) -> list[str]:
    """Return the rows printed above the question: in full what each call would run or change, unless the question
    itself contains it. Each of several calls has its name above it."""
    in_question = commands_in_question(items)
    room = width - len("? ?") if len(items) == 1 else width - _BATCH_MARKS
    bodies = []
    for item in items:
        body = [] if item.preview_kind == "command" and in_question else _body(item, theme, width - 2)
        if item.rewrite:  # what hooks changed or proposed to change, with their names
            changes = _diff(visible(item.rewrite).split("\n"), theme, width - 2)
            body = [theme.paint("warning", "Hooks on this call:"), *changes, *body]
        if item.output:
            output = lines.cut(visible(item.output).expandtabs().split("\n"), width - 4)
            said = ["Its output ended with:", *(f"  {row}" for row in output)]
            body = [*body, *(theme.paint("muted", row) for row in said)]
        bodies.append([*_whole_name(item, room, width - 2), *body])
    return _named(items, bodies, theme, width)


def render_commands(items: Sequence[ApprovalItem], theme: Theme, width: int) -> list[str]:
    """Return the rows of the commands of a request, for a screen too small for the question with them."""
    bodies = [_body(item, theme, width - 2) if item.preview_kind == "command" else [] for item in items]
    return _named(items, bodies, theme, width)


def _named(items: Sequence[ApprovalItem], bodies: Sequence[list[str]], theme: Theme, width: int) -> list[str]:
    rows: list[str] = []
    for number, (item, body) in enumerate(zip(items, bodies, strict=True), 1):
        if body and len(items) > 1:
            name = call_name(item, width - 8)
            rows.append(f"{theme.paint('warning', f'{number}/{len(items)}')} {theme.paint('strong', name)}")
        rows += ["  " + row for row in body]
    return rows


def _diff(text: list[str], theme: Theme, width: int) -> list[str]:
    from . import diff_view

    try:
        return diff_view.render_diff(text, theme, width)
    except Exception:  # without the text the user would be asked about a change that is not shown
        return text


def _body(item: ApprovalItem, theme: Theme, width: int) -> list[str]:
    text = visible(item.preview).rstrip("\n").split("\n")
    if item.preview_kind == "diff":
        return _diff(text, theme, width)
    if item.preview_kind == "text" and len(text) == 1 and item.title and text[0].endswith(item.title):
        return []
    return text
