"""`edit_file`: exact replacements in one file, all or none. No character outside the replaced spans changes."""

from typing import Annotated

import msgspec

from ..protocol.actions import Action, WritePath
from ..workspace.files import FileError, TextFile, read_text
from ..workspace.splice import LineView
from .base import Preview, ToolContext, ToolError, ToolOutcome, locate
from .change import PlannedChange, refuse_elision, refuse_unknown_encoding
from .nearest import nearest_region

_MAX_PLACES = 10


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One replacement."""

    old: Annotated[str, msgspec.Meta(description="Exact text, with indentation and enough context to be unique")]
    new: Annotated[str, msgspec.Meta(description="Text in its place")]
    replace_all: bool = False


class EditParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `edit_file` takes."""

    path: str
    edits: Annotated[tuple[Edit, ...], msgspec.Meta(min_length=1, description="Applied in order, all or none")]


class EditFile:
    """Replaces spans of a file."""

    name = "edit_file"
    Params = EditParams
    editable = ""

    def title(self, params: EditParams) -> str:
        return params.path

    def actions(self, params: EditParams, context: ToolContext) -> tuple[Action, ...]:
        place = locate(context, params.path)
        return (WritePath(place.real, place.shown),)

    async def preview(self, params: EditParams, context: ToolContext) -> Preview:
        change, _ = _planned(params, context)
        change.check()
        return Preview(change.diff.text, kind="diff")

    async def run(self, params: EditParams, context: ToolContext) -> ToolOutcome:
        change, note = _planned(params, context)
        return change.make(note)


def _planned(params: EditParams, context: ToolContext) -> tuple[PlannedChange, str]:
    place = locate(context, params.path)
    try:
        before = read_text(place.real, place.shown)
    except FileError as error:
        raise ToolError(str(error)) from error
    text = before.text
    for number, edit in enumerate(params.edits, 1):
        label = f"edit {number} of {len(params.edits)}" if len(params.edits) > 1 else "the edit"
        refuse_unknown_encoding(before, place.shown, edit.old, edit.new)
        refuse_elision(edit.new, edit.old, f"The new text of {label}")
        text = _applied(text, edit, label, place.shown)
    if text == before.text:
        raise ToolError(f"Together the edits leave {place.shown} as it is. Nothing was changed.")
    return PlannedChange(place, before, text), _note(before, context.seen.get(place.real))


def _note(before: TextFile, known: str | None) -> str:
    if known is None or known == before.hash:
        return ""
    return (
        " The file had changed since you last read it, in places other than these; read it again if that matters."
    )


def _applied(text: str, edit: Edit, label: str, shown: str) -> str:
    view = LineView(text)
    old, new = view.normal(edit.old), view.normal(edit.new)
    if not old:
        raise ToolError(f"{label}: `old` is empty. Use write_file to create a file. Nothing was changed.")
    if old == new:
        raise ToolError(f"{label}: `old` and `new` are identical. Nothing was changed.")
    spans = _apart(view, old) if edit.replace_all else view.find(old, _MAX_PLACES + 1)
    if not spans:
        raise ToolError(_not_found(view, old, new, label, shown))
    if len(spans) > 1 and not edit.replace_all:
        raise ToolError(_ambiguous(view, spans, label, shown))
    return view.replaced(spans, new)


def _apart(view: LineView, old: str) -> list[tuple[int, int]]:
    """All places of `old` that do not overlap."""
    spans = []
    at = view.text.find(old)
    while at >= 0:
        spans.append((at, at + len(old)))
        at = view.text.find(old, at + len(old))
    return spans


def _ambiguous(view: LineView, spans: list[tuple[int, int]], label: str, shown: str) -> str:
    lines = ", ".join(str(view.line_of(start)) for start, _ in spans[:_MAX_PLACES])
    more = " and more" if len(spans) > _MAX_PLACES else ""
    return (
        f"{label}: `old` occurs several times in {shown}, at lines {lines}{more}. Nothing was changed."
        " Add surrounding lines to make it unique, or set replace_all."
    )


def _not_found(view: LineView, old: str, new: str, label: str, shown: str) -> str:
    if len(new.strip()) > 3 and (places := view.find(new, 1)):
        line = view.line_of(places[0][0])
        return (
            f"{label} seems to be already applied: `old` does not occur in {shown}, and `new` stands at line"
            f" {line}. Nothing was changed."
        )
    return f"{label}: `old` does not occur in {shown}. Nothing was changed. {nearest_region(view.text, old)}"
