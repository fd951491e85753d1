"""`apply_patch`: changes to several files from one patch, applied all or none. Everything is computed before
anything is written, and completed writes are reverted if a later one fails."""

import os
import shlex
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from agent_cli.protocol.actions import Action, ReadPath, WritePath
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import FileChange, ResultKind
from agent_cli.workspace.editing.unified_diff import Diff, unified_diff
from agent_cli.workspace.files.encoding import codec_for_new
from agent_cli.workspace.files.reader import FileError, Stamp, TextFile, link_target, stamp_of
from agent_cli.workspace.paths import Resolved

from ..kit.base import (
    BasicTool,
    Preview,
    ToolContext,
    ToolError,
    ToolOutcome,
    check_judged_place,
    locate,
    resolve_path,
)
from ..kit.output import counted
from . import file_change

if TYPE_CHECKING:
    from .patch_format import FilePatch
    from .replace_text import EditResult


_HUNK = lazy_regex(r"(?m)^@@ ")


class PatchParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `apply_patch`."""

    patch: str


class Write(msgspec.Struct, frozen=True):
    """Create a file, or change the contents or mode of one."""

    change: file_change.PlannedChange
    diff: Diff
    executable: bool | None = None
    """True to make it executable, False not to; None for the default of a new file, the mode of `source`, or the
    present mode."""
    source: str = ""
    """Absolute path of the file it is moved from, whose mode, owner and attributes it keeps."""
    note: str = ""

    @property
    def place(self) -> Resolved:
        """The file to write."""
        return self.change.place

    @property
    def is_idle(self) -> bool:
        """True if it changes nothing."""
        before = self.change.before
        return before is not None and self.executable is None and self.change.after == before.text


class Remove(msgspec.Struct, frozen=True):
    """Delete a file, or a symbolic link without its target."""

    place: Resolved
    stamp: Stamp
    diff: Diff
    back: Callable[[], object]
    """Restore the file.

    Raises:
        FileError: it cannot be restored.
    """


Step = Write | Remove
"""One change to the disk."""


class ApplyPatch(BasicTool):
    """Applies a patch."""

    name = "apply_patch"
    label = "Patch"
    Params = PatchParams
    editable = "patch"
    result_kind: ResultKind = "summary"

    def title(self, params: PatchParams) -> str:
        return ", ".join(each.path for each in _parsed(params))

    def actions(self, params: PatchParams, context: ToolContext) -> tuple[Action, ...]:
        writes, reads = [], []
        for file in _parsed(params):
            place = _place(file, context)
            writes.append(WritePath(place.real, place.shown))
            if file.kind != "add":
                reads.append(ReadPath(place.real, place.shown))
            if file.target:
                target = locate(context, file.target)
                writes.append(WritePath(target.real, target.shown))
        return (*writes, *reads)

    async def preview(self, params: PatchParams, context: ToolContext) -> Preview:
        steps = await file_change.run_in_thread(partial(_planned, params, context))
        by_hunk = all(map(_has_independent_hunks, steps))
        return Preview("".join(step.diff.text for step in steps) or "No change.", kind="diff", by_hunk=by_hunk)

    async def run(self, params: PatchParams, context: ToolContext) -> ToolOutcome:
        return await file_change.run_in_thread(partial(_applied, params, context))


class PatchInCommand(ApplyPatch):
    """Applies the patch in a command line, whose paths begin where the command would run."""

    def actions(self, params: PatchParams, context: ToolContext) -> tuple[Action, ...]:
        _check_folder(params, context)
        return super().actions(params, context)

    async def run(self, params: PatchParams, context: ToolContext) -> ToolOutcome:
        _check_folder(params, context)  # an earlier command of the same answer may have changed it
        return await super().run(params, context)


def _check_folder(params: PatchParams, context: ToolContext) -> None:
    """Raises:
    ToolError: the shell is in another folder than patches count from.
    """
    folder, root = os.path.realpath(context.shell.start), os.path.realpath(context.workspace.root)
    relative = (path for file in _parsed(params) for path in (file.path, file.target) if not os.path.isabs(path))
    if folder != root and any(relative):
        raise ToolError(
            f"Commands run in {context.workspace.relative(folder)} now, but the paths of a patch begin at {root}."
            f" Nothing was changed. Call `apply_patch` with such paths, or `cd {shlex.quote(root)}` first."
        )


def _parsed(params: PatchParams) -> "tuple[FilePatch, ...]":
    from .patch_format import parse

    return parse(params.patch)


def _place(file: "FilePatch", context: ToolContext) -> Resolved:
    """Return the file that a patch names. A folder may really be called `a`. For a deletion or move of a symbolic
    link, the link itself is returned."""
    place = resolve_path(context, file.path, existing=file.kind != "add")
    if file.prefixed and file.kind != "add" and not os.path.lexists(place.real):
        whole = resolve_path(context, f"a/{file.path}")
        place = whole if os.path.lexists(whole.real) else place
    return check_judged_place(
        context, place if file.kind != "delete" and not file.target else _itself(place, context)
    )


def _itself(place: Resolved, context: ToolContext) -> Resolved:
    """Return the symbolic link at a path itself, or the place if it is not a link."""
    folder, name = os.path.split(os.path.join(context.workspace.root, os.path.expanduser(place.shown)))
    try:
        link = os.path.join(os.path.realpath(folder), name)
    except OSError as error:  # a link was replaced while it was resolved
        raise ToolError(f"{place.shown}: {error.strerror}. Nothing was changed.") from error
    if not os.path.islink(link):
        return place
    return Resolved(place.shown, link, context.workspace.relative(link))


def _applied(params: PatchParams, context: ToolContext) -> ToolOutcome:
    steps = _planned(params, context)
    left_out = ""
    if context.hunks is not None:
        steps, left_out = _accepted(steps, context.hunks)
    _write(steps)
    seen: dict[str, str] = {}
    for step in steps:
        seen.update(
            {step.place.real: file_change.UNKNOWN} if isinstance(step, Remove) else step.change.seen(context)
        )
    return ToolOutcome(
        text="\n".join(_said(step) for step in steps) + (file_change.hunks_note(left_out) if left_out else ""),
        display="".join(step.diff.text for step in steps),
        changes=tuple(_file_change(step) for step in steps if isinstance(step, Remove) or not step.is_idle),
        seen=seen,
    )


def _has_independent_hunks(step: Step) -> bool:
    """Return True if its hunks can be applied independently: not part of a move, and no mode change."""
    return isinstance(step, Remove) or (not step.source and step.executable is None)


def _accepted(steps: list[Step], kept: Collection[int]) -> tuple[list[Step], str]:
    """Return the steps that the user accepted, and the diff of the rest. Hunks are numbered from 0 across all
    steps.

    Raises:
        ToolError: nothing is left to do.
    """
    accepted: list[Step] = []
    left_out, first = "", 0
    for step in steps:
        count = len(_HUNK.findall(step.diff.text))
        own = {number - first for number in kept if first <= number < first + count}
        first += count
        if len(own) == count:
            accepted.append(step)
        elif own and isinstance(step, Write) and step.change.before:
            part, rest = step.change.with_hunks(own)
            accepted.append(msgspec.structs.replace(step, change=part, diff=part.diff))
            left_out += rest
        else:
            left_out += step.diff.text
    if not accepted:
        raise ToolError(file_change.NO_HUNKS)
    return accepted, left_out


def _planned(params: PatchParams, context: ToolContext) -> list[Step]:
    steps: list[Step] = []
    touched: set[str] = set()
    for file in _parsed(params):
        new = _steps(file, _place(file, context), context)
        for step in new:
            if step.place.real in touched:
                raise ToolError(
                    f"The patch changes {step.place.shown} twice (line {file.line}). Nothing was changed. Put all"
                    " its changes under one header."
                )
            touched.add(step.place.real)
            if not isinstance(step, Remove):
                step.change.data()
        steps += new
    if all(isinstance(step, Write) and step.is_idle and not step.note for step in steps):
        raise ToolError("The patch leaves everything as it is. Nothing was changed.")
    return steps


def _steps(file: "FilePatch", place: Resolved, context: ToolContext) -> list[Step]:
    if file.kind == "add":
        return [_added(file, place)]
    if link := link_target(place.real):
        return [_link_removed(file, place, *link)]
    before = file_change.read_for_change(place)
    if file.kind == "delete":
        return [_deleted(file, place, before, context)]
    return _updated(file, place, before, context)


def _added(file: "FilePatch", place: Resolved) -> Step:
    if os.path.lexists(place.real):
        raise ToolError(
            f"{place.shown} exists already (line {file.line} of the patch). Nothing was changed. Use"
            " `*** Update File:` to change it."
        )
    after = "".join(hunk.new for hunk in file.hunks)
    change = file_change.PlannedChange(place, None, after, after, codec_for_new(after))
    return Write(change, _headed(change.diff, "/dev/null", f"b/{place.relative}"), file.executable)


def _deleted(file: "FilePatch", place: Resolved, before: TextFile, context: ToolContext) -> Step:
    """Return the step that deletes a file. The patch must show all deleted lines, or the model must have read the
    file."""
    from .patch_apply import with_hunks

    if file.hunks:
        if with_hunks(before.text, file.hunks, place.shown).text.strip():
            raise ToolError(
                f"The patch deletes {place.shown}, but its lines are not all that is in the file now. Nothing was"
                " changed. Read it, then delete it with `*** Delete File:`."
            )
    elif before.text and (known := context.seen.get(place.real)) != before.hash:
        why = "you have not read it" if known is None else "it has changed since you read it"
        raise ToolError(
            f"The patch deletes {place.shown}, but {why}. Nothing was changed. Read it, then send the patch again."
        )
    return _removal(place, before)


def _removal(place: Resolved, before: TextFile) -> Step:
    from agent_cli.workspace.files.atomic_write import write_atomic

    old = before.codec.encode(before.text)
    back = partial(write_atomic, place.real, place.shown, old, None, mode=before.stamp.mode)
    return Remove(place, before.stamp, _gone(place, before.text), back)


def _link_removed(file: "FilePatch", place: Resolved, target: str, stamp: Stamp) -> Step:
    from agent_cli.workspace.files.atomic_write import put_link

    if file.kind != "delete":
        raise ToolError(
            f"{place.shown} is a symbolic link to {target}. Nothing was changed. Change {target} instead, or move"
            " the link with a command."
        )
    return Remove(place, stamp, _gone(place, target), partial(put_link, place.real, place.shown, target))


def _gone(place: Resolved, text: str) -> Diff:
    diff = unified_diff(text, "", place.relative)
    shown = diff.text.replace(f"+++ b/{place.relative}\n", "+++ /dev/null\n", 1)
    return _headed(msgspec.structs.replace(diff, text=shown), f"a/{place.relative}", "/dev/null")


def _headed(diff: Diff, old: str, new: str) -> Diff:
    """Return the diff, with at least a header for an empty file, which has no lines to show."""
    return diff if diff.text else Diff(f"--- {old}\n+++ {new}\n", 0, 0)


def _updated(file: "FilePatch", place: Resolved, before: TextFile, context: ToolContext) -> list[Step]:
    from .elision_check import refuse_elision

    for hunk in file.hunks:
        file_change.refuse_unknown_encoding(before, place.shown, hunk.new)
        refuse_elision(hunk.new, hunk.old, f"The hunk at line {hunk.line} of the patch", place.shown)
    edited = _edited(before.text, file, place)
    change, note = file_change.with_knowledge(
        file_change.PlannedChange(place, before, edited.text),
        context,
        lambda base: _edited(base, file, place).text,
    )
    note = edited.note + note
    if edited.near:
        note += f" Result:\n{file_change.short_diff(change.diff.text)}"
    if file.target and (target := locate(context, file.target)).real != place.real:
        return _moved(change, before, target, note, file.executable)
    return [_changed(change, before, note, file.executable)]


def _edited(text: str, file: "FilePatch", place: Resolved) -> "EditResult":
    from .patch_apply import with_hunks

    return file_change.edited_as_shown(place, text, lambda each: with_hunks(each, file.hunks, place.shown))


def _changed(change: file_change.PlannedChange, before: TextFile, note: str, executable: bool | None) -> Step:
    diff = change.diff
    if executable is None or executable == bool(before.stamp.mode & 0o111):
        return Write(change, diff, note=note)
    modes = ("100644", "100755") if executable else ("100755", "100644")
    name = change.place.relative
    head = f"diff --git a/{name} b/{name}\nold mode {modes[0]}\nnew mode {modes[1]}\n"
    return Write(change, msgspec.structs.replace(diff, text=head + diff.text), executable, note=note)


def _moved(
    change: file_change.PlannedChange, before: TextFile, target: Resolved, note: str, executable: bool | None
) -> list[Step]:
    if os.path.lexists(target.real):
        raise ToolError(f"{target.shown} exists already, so nothing can be moved there. Nothing was changed.")
    if executable is not None and executable != bool(before.stamp.mode & 0o111):
        raise ToolError(
            f"The patch moves {change.place.shown} and changes its mode. Nothing was changed. Move it first."
        )
    new = msgspec.structs.replace(
        change, place=target, before=None, codec=before.codec, knows=change.after if change.knows else None
    )
    diff = _headed(new.diff, "/dev/null", f"b/{target.relative}")
    return [Write(new, diff, source=change.place.real, note=note), _removal(change.place, before)]


def _write(steps: list[Step]) -> None:
    """Carry out all steps, or revert those already done.

    Raises:
        ToolError: nothing was changed, or the message lists what could not be restored.
    """
    undo: list[tuple[str, Callable[[], object]]] = []
    for step in steps:
        try:
            for back in _make(step):
                undo.append((step.place.shown, back))
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


def _make(step: Step) -> Iterator[Callable[[], object]]:
    """Carry out a step, and yield a function to revert each part done.

    Raises:
        FileError: a part failed.
    """
    from agent_cli.workspace.files.atomic_write import missing_folders, remove, set_executable, write_atomic

    real, shown = step.place.real, step.place.shown
    match step:
        case Remove():
            remove(real, shown, step.stamp)
            yield step.back
        case Write(change=change) if change.before is None:
            folders = missing_folders(real)
            made = write_atomic(real, shown, change.data(), None, like=step.source)
            if step.executable is not None:
                made = set_executable(real, shown, step.executable, made)
            yield partial(remove, real, shown, made, folders)
        case Write(change=change):
            assert change.before is not None
            before, now = change.before, change.before.stamp
            if step.executable is not None:
                now = set_executable(real, shown, step.executable, now)
                yield partial(_reset_mode, real, shown, before.stamp)
            if change.after != before.text:
                made = write_atomic(real, shown, change.data(), now)
                yield partial(write_atomic, real, shown, before.codec.encode(before.text), made)


def _reset_mode(real: str, shown: str, stamp: Stamp) -> None:
    """Restore the execute bits."""
    from agent_cli.workspace.files.atomic_write import set_executable

    now = stamp_of(real)
    if now is not None:
        set_executable(real, shown, bool(stamp.mode & 0o111), now)


def _said(step: Step) -> str:
    shown = step.place.shown
    if isinstance(step, Remove):
        return f"Deleted {shown}."
    if step.is_idle:
        return f"{shown} was left as it is.{step.note}"
    done = "Changed" if step.change.before else "Created"
    mode = {True: " It is now executable.", False: " It is no longer executable.", None: ""}[step.executable]
    counts = f"{counted(step.diff.added, 'line')} added, {step.diff.removed} removed"
    return (
        f"{done} {shown}: {counts}.{mode}{step.note}{file_change.python_note(step.place.real, step.change.after)}"
    )


def _file_change(step: Step) -> FileChange:
    if isinstance(step, Remove):
        return FileChange(step.place.relative, "deleted", 0, step.diff.removed)
    return step.change.file_change(step.diff)
