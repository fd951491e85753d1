"""`write_file`: create a file or replace it entirely. Replacing requires that the model has seen the old contents.
Changes made by others in the meantime are merged, or shown."""

import os
from functools import partial
from typing import Annotated

import msgspec

from agent_cli.protocol.actions import Action, ReadPath, WritePath
from agent_cli.protocol.messages import ResultKind
from agent_cli.workspace.editing.unified_diff import unified_diff
from agent_cli.workspace.files.encoding import codec_for_new
from agent_cli.workspace.files.reader import TextFile, stamp_of
from agent_cli.workspace.paths import Resolved

from ..kit.base import BasicTool, Preview, ToolContext, ToolError, ToolOutcome, locate
from . import file_change

_MAX_SHOWN_LINES = 120
_MAX_SHOWN_CHARS = 4000
"""Maximum size of a file that is shown to a model that would replace it without having read it."""


class WriteParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `write_file`."""

    path: str
    content: str
    may_shrink: Annotated[bool, msgspec.Meta(description="Most of the old content is removed on purpose")] = False


class WriteFile(BasicTool):
    """Creates or replaces a file."""

    name = "write_file"
    label = "Write"
    Params = WriteParams
    editable = "content"
    result_kind: ResultKind = "summary"

    def title(self, params: WriteParams) -> str:
        return params.path

    def actions(self, params: WriteParams, context: ToolContext) -> tuple[Action, ...]:
        place = locate(context, params.path)
        changed = WritePath(place.real, place.shown)
        return (changed, ReadPath(place.real, place.shown)) if os.path.lexists(place.real) else (changed,)

    async def preview(self, params: WriteParams, context: ToolContext) -> Preview:
        return await file_change.run_in_thread(partial(_shown, params, context))

    async def run(self, params: WriteParams, context: ToolContext) -> ToolOutcome:
        return await file_change.run_in_thread(partial(_made, params, context))


def _shown(params: WriteParams, context: ToolContext) -> Preview:
    change, _ = _planned(params, context)
    change.data()
    return Preview(
        change.diff.text or ("No change." if change.before else "A new, empty file."),
        kind="diff",
        by_hunk=change.before is not None,
    )


def _made(params: WriteParams, context: ToolContext) -> ToolOutcome:
    change, note = _planned(params, context)
    if change.before and change.before.text == change.after:
        text = f"{change.place.shown} has exactly this content already; nothing was written."
        return ToolOutcome(text=text, seen=change.seen(context))
    return change.make(context, note)


def _planned(params: WriteParams, context: ToolContext) -> tuple[file_change.PlannedChange, str]:
    from .elision_check import refuse_elision, refuse_shrinking

    place = locate(context, params.path)
    if params.path.endswith(os.sep) or os.path.isdir(place.real):
        raise ToolError(f"{place.shown} is a directory")
    if stamp_of(place.real) is None:
        return file_change.PlannedChange(
            place, None, params.content, params.content, codec_for_new(params.content)
        ), ""
    try:
        before = file_change.read_for_change(place)
    except ToolError as error:
        raise ToolError(f"{error}; it was not overwritten") from error
    base = _base(place, before, context)
    content = _like(base, params.content.removeprefix("\ufeff") if before.codec.bom else params.content)
    file_change.refuse_unknown_encoding(before, place.shown, content)
    refuse_elision(content, base, "The content", place.shown)
    if not params.may_shrink:
        refuse_shrinking(base, content, place.shown)
    if base == before.text:
        return file_change.PlannedChange(place, before, content, content), ""
    return _merged(place, before, base, content, context)


def _base(place: Resolved, before: TextFile, context: ToolContext) -> str:
    """Return the content that the new one is based on: the version known to the model."""
    hash = context.seen.get(place.real)
    if hash == before.hash or not before.text:
        return before.text
    if hash is None:
        raise _unread(place, before, context)
    base = file_change.known_text(context, hash)
    if base is None:
        raise ToolError(f"{place.shown} has changed since you read it. Read it again before you replace it.")
    return base


def _unread(place: Resolved, before: TextFile, context: ToolContext) -> ToolError:
    """Return the refusal to replace a file that the model has not read. It shows a small one, which counts as
    read."""
    said = f"{place.shown} exists and you have not read it. Nothing was written."
    if place.real.endswith(".ipynb"):
        return ToolError(f"{said} Change a notebook with edit_file.")
    if len(before.text) > _MAX_SHOWN_CHARS:
        return ToolError(f"{said} Read it before you replace it.")
    shown = f"{said} Send your content again if it replaces all of this:\n{before.text}"
    seen = file_change.PlannedChange(place, before, before.text, before.text).seen(context)
    return file_change.StaleFileError(shown, seen, said)


def _merged(
    place: Resolved, before: TextFile, base: str, content: str, context: ToolContext
) -> tuple[file_change.PlannedChange, str]:
    """Return the new content merged with changes by others, if they are in different places."""
    from agent_cli.workspace.editing.three_way import merge_texts

    both = merge_texts(base, content, before.text)
    theirs = unified_diff(base, before.text, place.relative).text.split("\n")[2:]
    shown = "\n".join(theirs[:_MAX_SHOWN_LINES])
    whole = len(theirs) <= _MAX_SHOWN_LINES
    if both is not None:
        note = f" {file_change.KEPT_CHANGES}\n{shown}"
        return file_change.PlannedChange(place, before, both, both if whole else content), note
    said = (
        f"{place.shown} was changed by others since you last read it, in places that you change too. Nothing was"
        f" written. What they changed:\n{shown}"
    )
    if not whole:
        raise ToolError(f"{said}\n… and more. Read the file again, then write it with their changes in it.")
    seen = file_change.PlannedChange(place, before, before.text, before.text).seen(context)
    raise file_change.StaleFileError(
        f"{said}\nSend your content again with their changes worked in (you need not read the file).", seen
    )


def _like(before: str, content: str) -> str:
    """Return `content` with the line endings of the file it replaces."""
    from agent_cli.workspace.editing.line_endings import line_end_of

    end = line_end_of(before)
    return content if end == "\n" else content.replace("\r\n", "\n").replace("\n", end)
