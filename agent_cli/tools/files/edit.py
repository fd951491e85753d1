"""`edit_file`: replacements in one file, applied all or none. Text outside the replaced spans is unchanged."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec

from agent_cli.protocol.actions import Action, ReadPath, WritePath
from agent_cli.protocol.messages import ResultKind
from agent_cli.workspace.paths import Resolved

from ..kit.base import BasicTool, Preview, ToolContext, ToolError, ToolOutcome, locate
from .file_change import (
    Edit,
    PlannedChange,
    edit_label,
    edited_as_shown,
    read_for_change,
    refuse_unknown_encoding,
    run_in_thread,
    short_diff,
    with_knowledge,
)

if TYPE_CHECKING:
    from .replace_text import EditResult


class EditParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `edit_file`."""

    path: str
    edits: Annotated[tuple[Edit, ...], msgspec.Meta(min_length=1, description="Applied in order, all or none")]


class EditFile(BasicTool):
    """Replaces spans of a file."""

    name = "edit_file"
    label = "Edit"
    Params = EditParams
    result_kind: ResultKind = "summary"

    def title(self, params: EditParams) -> str:
        return params.path

    def actions(self, params: EditParams, context: ToolContext) -> tuple[Action, ...]:
        place = locate(context, params.path, existing=True)
        return (WritePath(place.real, place.shown), ReadPath(place.real, place.shown))

    async def preview(self, params: EditParams, context: ToolContext) -> Preview:
        return await run_in_thread(partial(_shown, params, context))

    async def run(self, params: EditParams, context: ToolContext) -> ToolOutcome:
        return await run_in_thread(partial(_made, params, context))


def _shown(params: EditParams, context: ToolContext) -> Preview:
    change, note, _ = _planned(params, context)
    change.data()
    return Preview(change.diff.text or note.strip(), kind="diff", by_hunk=change.before is not None)


def _made(params: EditParams, context: ToolContext) -> ToolOutcome:
    change, note, near = _planned(params, context)
    if change.before and change.after == change.before.text:
        return ToolOutcome(text=f"Nothing was changed in {params.path}.{note}")
    outcome = change.make(context, note)
    if not near:
        return outcome
    return msgspec.structs.replace(outcome, text=f"{outcome.text} Result:\n{short_diff(outcome.display)}")


def _planned(params: EditParams, context: ToolContext) -> tuple[PlannedChange, str, bool]:
    from .elision_check import refuse_elision

    place = locate(context, params.path, existing=True)
    before = read_for_change(place)
    for number, edit in enumerate(params.edits, 1):
        refuse_unknown_encoding(before, place.shown, edit.old, edit.new)
        refuse_elision(edit.new, edit.old, f"The new text of {edit_label(number, len(params.edits))}", place.shown)
    edited = _edited(before.text, params.edits, place, place.shown)
    if edited.text == before.text and not edited.note:
        raise ToolError(f"Together the edits leave {place.shown} as it is. Nothing was changed.")
    change, changed_note = with_knowledge(
        PlannedChange(place, before, edited.text),
        context,
        lambda base: _edited(base, params.edits, place, "").text,
    )
    return change, edited.note + changed_note, edited.near


def _edited(text: str, edits: tuple[Edit, ...], place: Resolved, shown: str) -> "EditResult":
    from .replace_text import with_edits

    return edited_as_shown(place, text, lambda each: with_edits(each, edits, shown))
