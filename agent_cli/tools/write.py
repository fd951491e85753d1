"""`write_file`: a whole file, new or replaced. Replacing needs to have seen what is replaced."""

import os
from typing import Annotated

import msgspec

from ..protocol.actions import Action, WritePath
from ..workspace.files import FileError, TextFile, read_text, stamp_of
from ..workspace.paths import Resolved
from ..workspace.splice import line_end_of
from .base import Preview, ToolContext, ToolError, ToolOutcome, locate
from .change import PlannedChange, refuse_elision, refuse_unknown_encoding


class WriteParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `write_file` takes."""

    path: str
    content: Annotated[str, msgspec.Meta(description="The whole file")]


class WriteFile:
    """Creates or replaces a file."""

    name = "write_file"
    Params = WriteParams
    editable = "content"

    def title(self, params: WriteParams) -> str:
        return params.path

    def actions(self, params: WriteParams, context: ToolContext) -> tuple[Action, ...]:
        place = locate(context, params.path)
        return (WritePath(place.real, place.shown),)

    async def preview(self, params: WriteParams, context: ToolContext) -> Preview:
        change = _planned(params, context)
        change.check()
        return Preview(change.diff.text or "No change.", kind="diff")

    async def run(self, params: WriteParams, context: ToolContext) -> ToolOutcome:
        change = _planned(params, context)
        if change.before and change.before.text == change.after:
            text = f"{change.place.shown} has exactly this content already; nothing was written."
            return ToolOutcome(text=text, seen={change.place.real: change.before.hash})
        return change.make()


def _planned(params: WriteParams, context: ToolContext) -> PlannedChange:
    place = locate(context, params.path)
    if params.path.endswith(os.sep) or os.path.isdir(place.real):
        raise ToolError(f"{place.shown} is a directory")
    if stamp_of(place.real) is None:
        return PlannedChange(place, None, params.content)
    before = _seen_before(place, context)
    refuse_unknown_encoding(before, place.shown, params.content)
    refuse_elision(params.content, before.text, "The content")
    return PlannedChange(place, before, _like(before.text, params.content))


def _seen_before(place: Resolved, context: ToolContext) -> TextFile:
    """The file as it is, provided that the model knows it."""
    try:
        before = read_text(place.real, place.shown)
    except FileError as error:
        raise ToolError(f"{error}; it was not overwritten") from error
    known = context.seen.get(place.real)
    if known is None and before.text:
        raise ToolError(f"{place.shown} exists and you have not read it. Read it before you replace it.")
    if known is not None and known != before.hash:
        raise ToolError(f"{place.shown} has changed since you read it. Read it again before you replace it.")
    return before


def _like(before: str, content: str) -> str:
    """`content` with the line ends of the file it replaces."""
    end = line_end_of(before)
    return content if end == "\n" else content.replace("\r\n", "\n").replace("\n", end)
