"""Jupyter notebooks as readable cells instead of JSON: rendered for `read_file`, and edited as they were shown."""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.workspace.paths import Resolved

from ..kit.base import AmbiguousEditError, ToolError
from ..kit.output import counted

if TYPE_CHECKING:
    from .replace_text import EditResult

_MAX_OUTPUT = 2000
"""Maximum characters of one cell's output; the middle is left out."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_BETWEEN = "\n\0\n"
"""Separates the sources of cells while they are edited as one text."""
_INDENT = re.compile(r"\{\n([ \t]+)")
_Lines = str | list[str]


class _Output(msgspec.Struct, frozen=True):
    output_type: str = ""
    text: _Lines = ""
    data: dict[str, msgspec.Raw] = {}
    ename: str = ""
    evalue: str = ""
    traceback: list[str] = []


class _Cell(msgspec.Struct, frozen=True):
    cell_type: str
    source: _Lines
    execution_count: int | None = None
    outputs: list[_Output] = []


class Notebook(msgspec.Struct, frozen=True):
    """The parts of a notebook that are shown."""

    cells: list[_Cell]
    nbformat: int
    metadata: dict[str, Any] = {}


def parse(data: bytes) -> Notebook | None:
    """Return the notebook; None if the data is not a notebook or is damaged."""
    try:
        return decode_json(data, type=Notebook)
    except msgspec.DecodeError:
        return None


def render(notebook: Notebook, place: Resolved, first: int, limit: int, page_bytes: int) -> str:
    """Return cells `first` to `first + limit - 1` as text, or as many as fit a page."""
    total, room = len(notebook.cells), page_bytes
    parts: list[str] = []
    for number, cell in enumerate(notebook.cells[first - 1 : first - 1 + limit], first):
        text = _cell(cell, number)
        size = len(text.encode("utf-8", "replace"))
        if parts and size > room:
            break
        if size > room:
            text = f"{text[: room // 4]}\n[… the rest of this cell is left out: see it with grep]"
        parts.append(text)
        room -= size
    last = first + len(parts) - 1
    if last < total:
        call = msgspec.json.encode({"path": place.shown, "offset": last + 1}).decode()
        parts.append(f"[Cells {first}-{last} of {total} shown. To continue: read_file {call}]")
    parts.append(
        f"[A notebook of {counted(total, 'cell')}, without its metadata: edit_file changes the text of cells as"
        " shown, or else the JSON, of which grep shows the exact lines; rewriting it is refused]"
    )
    return "\n".join(parts)


def edited(text: str, edit: "Callable[[str], EditResult]", shown: str) -> "EditResult":
    """Return the JSON of a notebook with `edit` applied to the text of its cells, or to the JSON itself if it does
    not fit that. What is no notebook is edited as text.

    Raises:
        ToolError: it fits neither, or would not leave a notebook.
    """
    if parse(text.encode("utf-8", "replace")) is None:
        return edit(text)
    in_cells = _edited_cells(text, edit)
    if in_cells is not None and not isinstance(in_cells, ToolError):
        return in_cells
    try:
        result = edit(text)
    except ToolError as error:
        raise in_cells or error from error  # what resembles it in the cells says more
    if parse(result.text.encode("utf-8", "replace")) is None:
        raise ToolError(
            f"{shown} would not be valid JSON any more. Nothing was changed. Give the text of a cell as read_file"
            " shows it, or the JSON as grep shows it, where each line of a cell is a string."
        )
    return result


def _edited_cells(text: str, edit: "Callable[[str], EditResult]") -> "EditResult | ToolError | None":
    """Return the notebook with the sources of its cells edited, or why the edit does not fit them; None if the
    JSON cannot be written back as it is laid out.

    Raises:
        ToolError: it fits several places in the cells.
    """
    document = json.loads(text)
    found = _INDENT.match(text)
    layouts = [
        partial(json.dumps, indent=found[1] if found else None, ensure_ascii=ascii) for ascii in (False, True)
    ]
    body = text.rstrip("\n")
    written = next((each for each in layouts if each(document) == body), None)
    sources = [_joined(cell["source"]) for cell in document["cells"]]
    if written is None:
        return None
    try:
        result = edit(_BETWEEN.join(sources))
    except AmbiguousEditError as error:
        raise ToolError(f"{error}\n(Lines are counted over all cells.)") from error
    except ToolError as error:
        return error
    parts = result.text.split(_BETWEEN)
    if len(parts) != len(sources):
        return None
    for cell, before, after in zip(document["cells"], sources, parts, strict=True):
        if after != before:
            cell["source"] = after.splitlines(keepends=True) if isinstance(cell["source"], list) else after
    return msgspec.structs.replace(result, text=written(document) + text[len(body) :])


def _cell(cell: _Cell, number: int) -> str:
    count = f" [{cell.execution_count}]" if cell.execution_count is not None else ""
    parts = [f"[Cell {number}: {cell.cell_type}{count}]", _joined(cell.source)]
    told = [_output(output) for output in cell.outputs]
    if any(told):
        text = "\n".join(part.rstrip("\n") for part in told if part)
        if len(text) > _MAX_OUTPUT:
            half = _MAX_OUTPUT // 2
            text = f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
        parts.append(f"[Output of cell {number}]\n{text}")
    return "\n".join(part.rstrip("\n") for part in parts)


def _output(output: _Output) -> str:
    if output.output_type == "error":
        trace = _ESCAPES.sub("", "\n".join(output.traceback))
        return trace or f"{output.ename}: {output.evalue}"
    pictures = [kind for kind in output.data if kind.startswith("image/")]
    parts = [_ESCAPES.sub("", _joined(output.text))] if output.text else []
    parts += [_plain(output.data)] if "text/plain" in output.data else []
    parts += [f"[an image, {kind}]" for kind in pictures]
    others = [kind for kind in output.data if kind != "text/plain" and kind not in pictures]
    if not parts:
        parts = [f"[output of type {kind}]" for kind in others]
    return "\n".join(parts)


def _plain(data: dict[str, msgspec.Raw]) -> str:
    try:
        return _ESCAPES.sub("", _joined(decode_json(data["text/plain"], type=_Lines)))
    except msgspec.DecodeError:
        return "[output that is not text]"


def _joined(lines: _Lines) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
