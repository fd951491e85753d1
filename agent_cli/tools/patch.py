"""`apply_patch`: changes of several files from one patch, all or none. Everything is worked out before anything is
written, and what was written is taken back when a later write fails."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import msgspec

from ..protocol.actions import Action, WritePath
from ..protocol.messages import FileChange
from ..workspace.diff import Diff, unified_diff
from ..workspace.files import FileError, Stamp
from ..workspace.paths import Resolved
from .base import Preview, ToolContext, ToolError, ToolOutcome, locate
from .change import UNKNOWN, PlannedChange, read_for_change, refuse_unknown_encoding, short_diff, with_knowledge
from .output import counted

if TYPE_CHECKING:
    from .patch_format import FilePatch


class PatchParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `apply_patch` takes."""

    patch: Annotated[str, msgspec.Meta(description="The whole patch")]


class Step(msgspec.Struct, frozen=True):
    """One thing to do to the disk: put `after` there, or remove what is there."""

    change: PlannedChange
    diff: Diff
    removes: bool = False
    mode: int | None = None
    """For a new file that another one moves to."""
    note: str = ""

    @property
    def place(self) -> Resolved:
        """The file."""
        return self.change.place


class ApplyPatch:
    """Applies a patch."""

    name = "apply_patch"
    Params = PatchParams
    editable = "patch"

    def title(self, params: PatchParams) -> str:
        return ", ".join(each.path for each in _parsed(params))

    def actions(self, params: PatchParams, context: ToolContext) -> tuple[Action, ...]:
        places = [
            locate(context, path)
            for file in _parsed(params)
            for path in (_path(file, context), file.target)
            if path
        ]
        return tuple(WritePath(place.real, place.shown) for place in places)

    async def preview(self, params: PatchParams, context: ToolContext) -> Preview:
        steps = _planned(params, context)
        return Preview("".join(step.diff.text for step in steps) or "No change.", kind="diff")

    async def run(self, params: PatchParams, context: ToolContext) -> ToolOutcome:
        steps = _planned(params, context)
        _write(steps)
        seen: dict[str, str] = {}
        for step in steps:
            seen.update({step.place.real: UNKNOWN} if step.removes else step.change.seen(context))
        return ToolOutcome(
            text="\n".join(_said(step) for step in steps),
            display="".join(step.diff.text for step in steps),
            changes=tuple(_file_change(step) for step in steps if step.diff.text or step.removes or step.mode),
            seen=seen,
        )


def _parsed(params: PatchParams) -> "tuple[FilePatch, ...]":
    from .patch_format import parse

    return parse(params.patch)


def _path(file: "FilePatch", context: ToolContext) -> str:
    """The path meant: a folder may really be called `a`."""
    if file.prefixed and file.kind != "add" and not os.path.lexists(locate(context, file.path).real):
        whole = f"a/{file.path}"
        if os.path.lexists(locate(context, whole).real):
            return whole
    return file.path


def _planned(params: PatchParams, context: ToolContext) -> list[Step]:
    steps: list[Step] = []
    touched: set[str] = set()
    for file in _parsed(params):
        place = locate(context, _path(file, context))
        new = _steps(file, place, context)
        for step in new:
            if step.place.real in touched:
                raise ToolError(
                    f"The patch changes {step.place.shown} twice (line {file.line}). Nothing was changed. Put all"
                    " its changes under one header."
                )
            touched.add(step.place.real)
            if not step.removes:
                step.change.check()
        steps += new
    if not any(step.diff.text or step.removes or step.mode is not None for step in steps):
        notes = "".join(step.note for step in steps)
        if not notes:
            raise ToolError("The patch leaves everything as it is. Nothing was changed.")
    return steps


def _steps(file: "FilePatch", place: Resolved, context: ToolContext) -> list[Step]:
    from .hunks import with_hunks
    from .losses import refuse_elision

    if file.kind == "add":
        return [_added(file, place)]
    before = read_for_change(place)
    if file.kind == "delete":
        if file.hunks and with_hunks(before.text, file.hunks, place.shown).text.strip():
            raise ToolError(
                f"The patch deletes {place.shown}, but its lines are not all that is in the file now. Nothing was"
                " changed. Read it, then delete it with `*** Delete File:`."
            )
        return [_removal(PlannedChange(place, before, ""))]
    for hunk in file.hunks:
        refuse_unknown_encoding(before, place.shown, hunk.new)
        refuse_elision(hunk.new, hunk.old, f"The hunk at line {hunk.line} of the patch")
    edited = with_hunks(before.text, file.hunks, place.shown)
    change, note = with_knowledge(
        PlannedChange(place, before, edited.text),
        context,
        lambda base: with_hunks(base, file.hunks, place.shown).text,
    )
    note = edited.note + note
    if edited.near:
        note += f" What came of it:\n{short_diff(change.diff.text)}"
    if file.target and (target := locate(context, file.target)).real != place.real:
        return _moved(change, target, note)
    return [Step(change, change.diff, note=note)]


def _added(file: "FilePatch", place: Resolved) -> Step:
    if os.path.lexists(place.real):
        raise ToolError(
            f"{place.shown} exists already (line {file.line} of the patch). Nothing was changed. Use"
            " `*** Update File:` to change it."
        )
    after = "".join(hunk.new for hunk in file.hunks)
    change = PlannedChange(place, None, after, after)
    return Step(change, change.diff)


def _removal(change: PlannedChange) -> Step:
    before = change.before.text if change.before else ""
    diff = unified_diff(before, "", change.place.relative)
    text = diff.text.replace(f"+++ b/{change.place.relative}\n", "+++ /dev/null\n", 1)
    return Step(change, msgspec.structs.replace(diff, text=text), removes=True)


def _moved(change: PlannedChange, target: Resolved, note: str) -> list[Step]:
    if os.path.lexists(target.real):
        raise ToolError(f"{target.shown} exists already, so nothing can be moved there. Nothing was changed.")
    assert change.before is not None
    new = msgspec.structs.replace(
        change, place=target, before=None, codec=change.before.codec, knows=change.after if change.knows else None
    )
    created = Step(new, new.diff, mode=change.before.stamp.mode, note=note)
    return [created, _removal(msgspec.structs.replace(change, after=""))]


def _write(steps: list[Step]) -> None:
    """Make all steps, or take back those made.

    Raises:
        ToolError: nothing was changed, or the text says what could not be taken back.
    """
    undo: list[tuple[str, Callable[[], object]]] = []
    for step in steps:
        try:
            undo.append((step.place.shown, _make(step)))
        except FileError as error:
            left = _take_back(undo)
            state = f"These could not be put back: {', '.join(left)}." if left else "Nothing was changed."
            raise ToolError(f"{error}. {state}") from error


def _take_back(undo: list[tuple[str, Callable[[], object]]]) -> list[str]:
    left = []
    for shown, back in reversed(undo):
        try:
            back()
        except FileError:
            left.append(shown)
    return left


def _make(step: Step) -> Callable[[], object]:
    """Do it; gives what takes it back.

    Raises:
        FileError: it was not done.
    """
    from ..workspace.replace import remove, write_atomic

    change, real, shown = step.change, step.place.real, step.place.shown
    before = change.before
    old = before.codec.encode(before.text) if before else b""
    if step.removes:
        assert before is not None
        remove(real, shown, before.stamp)
        return lambda: write_atomic(real, shown, old, None, mode=before.stamp.mode)
    if before is not None and change.after == before.text:
        return lambda: None
    made: Stamp = write_atomic(real, shown, change.data, before.stamp if before else None, mode=step.mode)
    if before is None:
        return lambda: remove(real, shown, made)
    return lambda: write_atomic(real, shown, old, made)


def _said(step: Step) -> str:
    if step.removes:
        return f"Deleted {step.place.shown}."
    if not step.diff.text and step.mode is None:
        return f"{step.place.shown} was left as it is.{step.note}"
    done = "Created" if step.change.before is None else "Changed"
    counts = f"{counted(step.diff.added, 'line')} added, {step.diff.removed} removed"
    return f"{done} {step.place.shown}: {counts}.{step.note}"


def _file_change(step: Step) -> FileChange:
    if step.removes:
        return FileChange(step.place.relative, "deleted", 0, step.diff.removed)
    return step.change.file_change(step.diff)
