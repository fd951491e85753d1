"""What a person is asked to allow, in words and in full: the question names the call, and what is too long to
stand in it is printed above it.

Apart from the dialogs, since the renderer prints before a dialog is drawn, and both must agree on what stands
where.
"""

from collections.abc import Sequence

from agent_cli.protocol.events import ApprovalItem
from agent_cli.protocol.sanitize import visible

from ..text import lines
from ..text.theme import Theme
from .live import without_emoji_sequences

_LINES, _CELLS = 4, 160
"""Commands up to this size, together, stand in the question: they fit on the smallest screen whole."""
_NEW_FILE = ("--- /dev/null", "A new, empty file.")
_COMMAND = "$"
"""The label of a tool that runs command lines."""


def commands_in_question(items: Sequence[ApprovalItem]) -> bool:
    """Return whether the commands of a request stand in the question itself, and not above it."""
    texts = [_command(item) for item in items if item.preview_kind == "command"]
    rows = [row for text in texts for row in text.split("\n")]
    is_drawn_alike = all(without_emoji_sequences(text) == text and "\t" not in text for text in texts)
    return is_drawn_alike and len(rows) <= _LINES and sum(map(lines.cells, rows)) <= _CELLS


def _command(item: ApprovalItem) -> str:
    return visible(item.preview).rstrip("\n")


def command_rows(item: ApprovalItem, width: int) -> list[str]:
    """Return a command as it is, in rows of at most `width` columns."""
    rows = []
    for row in _command(item).split("\n"):
        while lines.cells(row) > width and (at := lines.fit(row, width)):
            rows.append(row[:at])
            row = row[at:]
        rows.append(row)
    return rows


def call_name(item: ApprovalItem, limit: int = 200) -> str:
    """Return what a call does, in a few words: `Run make test`, `Edit src/x.py`."""
    if item.preview_kind == "command" and item.label == _COMMAND:
        return lines.one_line(f"Run {item.title}", limit)
    verb = lines.one_line(item.label, 40) or f"Allow {lines.one_line(item.tool, 40)}"
    if item.preview_kind == "diff" and _only_creates(item.preview):
        verb = "Create"
    return lines.one_line(f"{verb} {lines.call_title(item.tool, item.title, limit)}", limit)


def _only_creates(diff: str) -> bool:
    """Return whether every file of a diff is new; no line of a new file begins as a header does."""
    return diff.startswith(_NEW_FILE) and all(
        line.startswith(_NEW_FILE) for line in diff.split("\n") if line.startswith("--- ")
    )


def reason(item: ApprovalItem) -> str:
    """Return why a call asks; of an edit of the workspace not again which file it changes."""
    path = item.title.partition(", ")[0]
    return "edits need approval" if item.is_edit and item.reason.startswith(f"it changes {path}") else item.reason


def where(item: ApprovalItem) -> str:
    """Return where a command would run: `here`, `in src, outside the sandbox`; empty when that is unknown."""
    place = {"": "", ".": "here"}.get(item.folder, f"in {lines.one_line(item.folder, 60)}")
    reach = {"network": "with network access", "outside": "outside the sandbox"}.get(item.reach, "")
    return ", ".join(filter(None, (place, reach)))


def question(
    item: ApprovalItem, width: int, *, holds_command: bool, note: str = "", agent: str = ""
) -> tuple[str, list[str]]:
    """Return the question in one line, and the rows of a command that stands in it and is too long for that line.
    `note` is said behind the call, such as `(edited)`; `agent` is the sub-agent that makes it."""
    room = width - lines.cells(asked_by(agent, "Run")) + len("Run")
    asked, rows = _question(item, max(room, 0), width, holds_command=holds_command, note=note)
    return asked_by(agent, asked), rows


def asked_by(agent: str, asked: str) -> str:
    """Return a question with the sub-agent whose call it is about: `explore-2 wants to run  npm test ?`."""
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
    """Return what is printed above the question: in full what each call would run or change, where the question
    itself does not hold it. Of several calls each has its name above it."""
    in_question = commands_in_question(items)
    rows: list[str] = []
    for number, item in enumerate(items, 1):
        body = [] if item.preview_kind == "command" and in_question else _body(item, theme, width - 2)
        body = [*_rewrite(item, theme, width - 2), *body]
        if body and len(items) > 1:
            name = call_name(item, width - 8)
            rows.append(f"{theme.paint('warning', f'{number}/{len(items)}')} {theme.paint('strong', name)}")
        rows += ["  " + row for row in body]
    return rows


def _rewrite(item: ApprovalItem, theme: Theme, width: int) -> list[str]:
    """Return what hooks changed in a call, or wanted to, by their names."""
    if not item.rewrite:
        return []
    return [theme.paint("warning", "Hooks on this call:"), *_diff(visible(item.rewrite).split("\n"), theme, width)]


def _diff(text: list[str], theme: Theme, width: int) -> list[str]:
    from . import diff_view

    try:
        return diff_view.render_diff(text, theme, width)
    except Exception:  # nobody is asked about a change that is not shown
        return text


def _body(item: ApprovalItem, theme: Theme, width: int) -> list[str]:
    text = visible(item.preview).rstrip("\n").split("\n")
    if item.preview_kind == "diff":
        return _diff(text, theme, width)
    if item.preview_kind == "text" and len(text) == 1 and item.title and text[0].endswith(item.title):
        return []
    return text
