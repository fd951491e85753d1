"""Tool calls in the client's format: kind, title, locations, content and file changes."""

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal
from unicodedata import east_asian_width

import msgspec

from agent_cli.protocol.events import ApprovalItem, ToolCallFinished, ToolCallRequested, ToolCallStarted
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.sanitize import clean, fence, fenced, one_line, visible, without_data_marks

from ..engine_link import approval_reason, call_text
from .content import text_block

Kind = Literal["read", "edit", "search", "execute", "think", "fetch", "other"]
_KINDS: dict[str, Kind] = {
    "read_file": "read",
    "list_dir": "read",
    "repo_map": "read",
    "skill": "read",
    "edit_file": "edit",
    "write_file": "edit",
    "apply_patch": "edit",
    "glob": "search",
    "grep": "search",
    "recall": "search",
    "search_history": "search",
    "find_tools": "search",
    "find_skills": "search",
    "shell": "execute",
    "jobs": "execute",
    "web_fetch": "fetch",
    "web_search": "fetch",
    "update_plan": "think",
    "agent": "think",
    "agents": "think",
}
_FILES = ("read", "edit")
"""Kinds of calls whose argument `path` names a file to follow."""
_MOST_CHARS = 20_000
"""Maximum size of a text in characters; of a longer text the end is shown."""
_ROW_CELLS = 76
"""Maximum width of a row that the user must see in full."""
_BROKEN = "\n↪ "
"""Between the parts of a broken row."""


def kind_of(tool: str) -> Kind:
    """Return the kind of a tool, which selects the client's icon."""
    return _KINDS.get(tool, "other")


def title_of(call: ToolCallRequested | ToolCallStarted | ToolCallFinished | ApprovalItem) -> str:
    """Return a call on one line: a command alone, any other call with its action. A tool that no longer exists has
    its name as the title."""
    label = call.label if kind_of(call.tool) != "execute" or call.label != "$" else ""
    has_name = call.label == "$" or call.title == call.tool
    return one_line(f"{label or ('' if has_name else call.tool)} {call.title}")


def arguments_of(text: str) -> Any:
    """Return the arguments of a call as JSON, or as text if they are not JSON."""
    try:
        return decode_json(text)
    except msgspec.DecodeError:
        return text


def locations_of(tool: str, arguments: Any, cwd: str) -> list[dict[str, Any]]:
    """Return the file location of a call, for an editor that follows the agent."""
    path = arguments.get("path") if isinstance(arguments, dict) else None
    if kind_of(tool) not in _FILES or not isinstance(path, str) or not path:
        return []
    line = arguments.get("offset")
    place: dict[str, Any] = {"path": os.path.normpath(os.path.join(cwd, path))}
    return [place | ({"line": line} if isinstance(line, int) and line > 0 else {})]


def text_content(text: str) -> list[dict[str, Any]]:
    """Return a text as the content of a call; nothing for an empty text."""
    return [{"type": "content", "content": text_block(text)}] if text else []


def output_content(text: str) -> list[dict[str, Any]]:
    """Return the output of a command verbatim; if it is long, its end."""
    text = clean(text).strip("\n")
    if not text:
        return []
    cut = "…\n" if len(text) > _MOST_CHARS else ""
    return text_content(f"{fence(text)}\n{cut}{text[-_MOST_CHARS:]}\n{fence(text)}")


def finished_content(event: ToolCallFinished, cwd: str) -> list[dict[str, Any]]:
    """Return the content of a finished call."""
    text = without_data_marks(event.text)
    if event.status != "ok" and not event.changes:
        return output_content(text)
    if event.changes and kind_of(event.tool) != "execute" and (content := diff_content(event.display, cwd)):
        return content
    match event.result_kind:
        case "answer":  # it is also the answer of the turn
            return []
        case "summary":
            return text_content(clean(event.display or text)[-_MOST_CHARS:])
        case "agent" | "question":
            return text_content(clean(text)[-_MOST_CHARS:])
        case "text" | "output":
            return output_content(event.display or text)


def finished_locations(event: ToolCallFinished, cwd: str) -> list[dict[str, Any]]:
    """Return the files that a call has changed."""
    return [{"path": os.path.normpath(os.path.join(cwd, change.path))} for change in event.changes]


def raw_output(event: ToolCallFinished) -> dict[str, Any]:
    """Return the result for programs: the text that the model reads, and how the call ended."""
    found: dict[str, Any] = {"status": event.status, "text": event.text}
    return found | ({"exitCode": event.exit_code} if event.exit_code is not None else {})


def approval_content(item: ApprovalItem, cwd: str) -> list[dict[str, Any]]:
    """Return everything that a decision needs: the whole change or command, why it is asked, and the risk."""
    content = diff_content(item.preview, cwd) if item.preview_kind == "diff" else []
    return [*(content or _exact(call_text(item))), *_exact(approval_reason(item))]


def _exact(text: str) -> list[dict[str, Any]]:
    """Return a text as a code block, because Markdown would hide parts of it, such as `<!-- … -->`. Long rows are
    broken: clients cut code blocks off at their right edge."""
    return text_content(fenced("\n".join(_BROKEN.join(_pieces(row)) for row in visible(text).split("\n"))))


def _pieces(row: str) -> Iterator[str]:
    """Yield the parts of a row, each at most `_ROW_CELLS` wide, broken after a space where there is one."""
    start = 0
    while (end := _fitting(row, start)) < len(row):
        end = row.rfind(" ", (start + end) // 2, end) + 1 or end
        yield row[start:end]
        start = end
    yield row[start:]


def _fitting(row: str, start: int) -> int:
    """Return the end of the longest part that begins at `start` and is at most `_ROW_CELLS` wide."""
    cells = 0
    for at in range(start, min(start + _ROW_CELLS + 1, len(row))):
        cells += 4 if row[at] == "\t" else 2 if east_asian_width(row[at]) in "WF" else 1
        if cells > _ROW_CELLS:
            return at
    return len(row)


def diff_content(text: str, cwd: str) -> list[dict[str, Any]]:
    """Return a unified diff of one or more files as the content of a call: each hunk as the old and the new text
    of its lines, then the rows that no hunk shows, such as empty files, modes, and how much was left out."""
    hunks: list[dict[str, Any]] = []
    untold: list[str] = []
    head: list[str] = []
    """Rows about the file at hand, before its first hunk."""
    rows, at, before, path = text.split("\n"), 0, "", ""
    while at < len(rows):
        row, at = rows[at], at + 1
        if found := _HUNK.match(row):
            old, new, at = _hunk(rows, at, *(1 if count is None else int(count) for count in found.groups()))
            hunks.append(
                {"type": "diff", "path": path, "oldText": None if before == _NOTHING else old, "newText": new}
            )
            untold += [] if all(each.startswith(_NAMES) for each in head) else head
            head = []
            continue
        is_second = row.startswith("--- ") and any(each.startswith("+++ ") for each in head)
        if is_second or row.startswith("diff --git "):  # another file begins
            untold, head = [*untold, *head], []
        if row.startswith("--- "):
            before = row[4:]
        elif row.startswith("+++ "):
            name = re.sub(r"^[ab]/", "", row[4:] if row[4:] != _NOTHING else before)
            path = os.path.normpath(os.path.join(cwd, name))
        if row.startswith(_CUT):
            untold.append(f"{path}: {row}")
        elif row.startswith((*_NAMES, *_FACTS)):
            head.append(row)
    return [*hunks, *output_content("\n".join([*untold, *head]))]


def _hunk(rows: Sequence[str], at: int, old_lines: int, new_lines: int) -> tuple[str, str, int]:
    """Return the old and the new text of a hunk, and the number of the row behind it. A hunk may be cut off."""
    old: list[str] = []
    new: list[str] = []
    while (len(old) < old_lines or len(new) < new_lines) and at < len(rows) and not rows[at].startswith(_CUT):
        mark, line = rows[at][:1], rows[at][1:]
        old += [line] if mark in ("-", " ") else []
        new += [line] if mark in ("+", " ") else []
        at += 1
    return "\n".join(old), "\n".join(new), at


_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NOTHING = "/dev/null"
_CUT = "…"
"""Begins the row in place of lines that are not shown."""
_NAMES = ("diff --git ", "--- ", "+++ ")
_FACTS = ("old mode ", "new mode ")
