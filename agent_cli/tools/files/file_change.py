"""Common parts of writing, editing and patching: a planned change, what the model knows after it, and its diff."""

import asyncio
import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

from agent_cli.protocol.messages import FileChange
from agent_cli.workspace.editing.unified_diff import Diff, unified_diff, with_hunks
from agent_cli.workspace.files.encoding import Codec, decode
from agent_cli.workspace.files.reader import FileError, TextFile, content_hash, read_text
from agent_cli.workspace.paths import Resolved

from ..kit.base import ToolContext, ToolError, ToolOutcome
from ..kit.output import counted

if TYPE_CHECKING:
    from .replace_text import EditResult

T = TypeVar("T")
_MAX_SHOWN_LINES = 40
KEPT_CHANGES = "The file had changed since you last read it, by a command or by others; these changes are kept:"
_LONGEST_CHECKED = 1_000_000
UNKNOWN = ""
"""In `seen`: the model knows that the file exists, but not its current contents."""


class StaleFileError(ToolError):
    """A refusal that shows the model the current contents of the file."""

    def __init__(self, text: str, seen: dict[str, str], display: str = "") -> None:
        super().__init__(text)
        self.seen = seen
        self.display = display


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One replacement."""

    old: Annotated[str, msgspec.Meta(description="Exact text, with indentation and enough context to be unique")]
    new: Annotated[str, msgspec.Meta(description="Replacement text")]
    replace_all: bool = False


def edit_label(number: int, count: int) -> str:
    """Return the name of one of several edits for messages."""
    return f"edit {number} of {count}" if count > 1 else "the edit"


async def run_in_thread(work: Callable[[], T]) -> T:
    """Run work in a thread and return its result, so that long work does not block the event loop. On
    cancellation, wait for the work to end: a write that has begun is finished."""
    doing = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        if not doing.done():
            await asyncio.wait([doing])
        doing.exception()  # mark the exception as retrieved
        raise


class PlannedChange(msgspec.Struct, frozen=True):
    """The planned new content of one file."""

    place: Resolved
    before: TextFile | None
    """The current file; None for a new one."""
    after: str
    """The complete new text, with its line endings."""
    knows: str | None = None
    """The text that the model assumes after the change; None if it has not read the rest."""
    codec: Codec = Codec()
    """Encoding of a new file."""
    forgets: bool = False
    """True if the model's earlier knowledge of the file becomes invalid."""

    @property
    def diff(self) -> Diff:
        """The diff of the change."""
        before = self.before.text if self.before else ""
        return unified_diff(before, self.after, self.place.relative, created=self.before is None)

    def data(self) -> bytes:
        """Return the bytes to write. Called for a preview too, so that its errors come before the user is asked.

        Raises:
            ToolError: the text has a character that the file's encoding lacks, or a placeholder for a secret.
        """
        self._refuse_masks()
        return self._encoded(self.after)

    def make(self, context: ToolContext, note: str = "") -> ToolOutcome:
        """Write the change; `note` is appended to the text for the model.

        Raises:
            ToolError: nothing was written; the message says why.
        """
        from agent_cli.workspace.files.atomic_write import write_atomic

        if context.hunks is not None:
            part, left_out = self.with_hunks(context.hunks)
            if part.after == (self.before.text if self.before else ""):
                raise ToolError(NO_HUNKS)
            return part.make(msgspec.structs.replace(context, hunks=None), f"{note}{hunks_note(left_out)}")
        note = f"{note}{python_note(self.place.real, self.after)}{_links_note(self.place.real)}"
        try:
            write_atomic(
                self.place.real, self.place.shown, self.data(), self.before.stamp if self.before else None
            )
        except FileError as error:
            raise ToolError(str(error)) from error
        diff = self.diff
        done = "Changed" if self.before else "Created"
        counts = f"{counted(diff.added, 'line')} added, {diff.removed} removed"
        return ToolOutcome(
            text=f"{done} {self.place.shown}: {counts}.{note}",
            display=diff.text,
            changes=(self.file_change(diff),),
            seen=self.seen(context),
        )

    def with_hunks(self, kept: Collection[int]) -> tuple["PlannedChange", str]:
        """Return the part of the change that the user accepted, and the diff of the rest."""
        after = with_hunks(self.before.text if self.before else "", self.after, kept)
        left_out = unified_diff(after, self.after, self.place.relative).text
        knows = after if self.knows == self.after else None
        return msgspec.structs.replace(self, after=after, knows=knows), left_out

    def file_change(self, diff: Diff) -> FileChange:
        """Return the change with line counts."""
        kind = "modified" if self.before else "created"
        return FileChange(path=self.place.relative, kind=kind, added=diff.added, removed=diff.removed)  # type: ignore[arg-type]

    def seen(self, context: ToolContext) -> dict[str, str]:
        """Return what the model knows after the change, for `seen`; the content is kept for a merge."""
        if self.forgets:
            return {self.place.real: UNKNOWN}
        if self.knows is None:
            return {}
        data = self._encoded(self.knows)
        hash = content_hash(data)
        context.known.keep(hash, data)
        return {self.place.real: hash}

    def _refuse_masks(self) -> None:
        """Refuse placeholders for secrets: they must not replace the secrets in the file."""
        if "[masked: " not in self.after:
            return
        from agent_cli.redaction.redactor import PLACEHOLDER

        own = set(PLACEHOLDER.findall(self.before.text)) if self.before else set()
        if foreign := [mask for mask in PLACEHOLDER.findall(self.after) if mask not in own]:
            raise ToolError(
                f"The new text of {self.place.shown} holds {foreign[0]}, which stands for a secret that you"
                " are not shown. Nothing was written. Leave those lines out of the edit: they stay as they are."
            )

    def _encoded(self, text: str) -> bytes:
        codec = self.before.codec if self.before else self.codec
        try:
            return codec.encode(text)
        except UnicodeEncodeError as error:
            bad = text[error.start : error.start + 1]
            raise ToolError(
                f"{self.place.shown} is in {codec.shown}, which has no character {bad!r} (U+{ord(bad):04X})."
                " Nothing was written."
            ) from error


NO_HUNKS = "The user accepted no part of the change; nothing was written."


def hunks_note(left_out: str) -> str:
    """Return a sentence for the model about hunks that the user rejected, with their diff."""
    return f" The user accepted a part of the change only. Not accepted:\n{left_out.rstrip()}"


def python_note(path: str, text: str) -> str:
    """Return a warning if a Python file would not compile; empty if it would."""
    if not path.endswith((".py", ".pyi")) or len(text) > _LONGEST_CHECKED:
        return ""
    import ast
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return f" Warning: it is not valid Python now: line {error.lineno}: {error.msg}."
    except (ValueError, RecursionError, MemoryError):  # the parser cannot judge such text
        pass
    return ""


def _links_note(path: str) -> str:
    """Return a note about a file with additional hard links."""
    try:
        linked = os.stat(path).st_nlink > 1
    except OSError:
        return ""
    return " It had further names (hard links): those keep the old content." if linked else ""


def read_for_change(place: Resolved) -> TextFile:
    """Return the current file.

    Raises:
        ToolError: it cannot be read, is not text or is damaged, or an earlier write to it was interrupted.
    """
    from agent_cli.workspace.files.atomic_write import cut_short

    if left := cut_short(place.real):
        raise ToolError(left.format(shown=place.shown))
    try:
        file = read_text(place.real, place.shown)
    except FileError as error:
        raise ToolError(str(error)) from error
    if file.codec.damage:
        raise ToolError(
            f"{place.shown} is UTF-8 but for {file.codec.damage}, so that it cannot be written back as it is."
            " Nothing was changed. Fix or remove that byte with a command first"
        )
    return file


def edited_as_shown(place: Resolved, text: str, edit: "Callable[[str], EditResult]") -> "EditResult":
    """Return a file's text with an edit applied. A notebook is edited by the cells that `read_file` shows.

    Raises:
        ToolError: it does not fit.
    """
    if not place.real.endswith(".ipynb"):
        return edit(text)
    from . import notebook

    return notebook.edited(text, edit, place.shown)


def with_knowledge(
    change: PlannedChange, context: ToolContext, redo: Callable[[str], str]
) -> tuple[PlannedChange, str]:
    """Return the change with the model's resulting knowledge, and a sentence if others changed the file.

    `redo` applies the same edit to another text or raises ToolError. If the model last saw other content, it is
    shown the other changes if they are short. Otherwise it is assumed to know the content it saw, plus its own
    edit.
    """
    before = change.before
    hash = context.seen.get(change.place.real)
    if before is None or hash == before.hash:
        return msgspec.structs.replace(change, knows=change.after), ""
    if hash is None:
        return change, ""
    base = known_text(context, hash)
    theirs = (
        unified_diff(base, before.text, change.place.relative).text.split("\n")[2:] if base is not None else []
    )
    if base is not None and len(theirs) <= _MAX_SHOWN_LINES:
        shown = "\n".join(theirs)
        note = f" {KEPT_CHANGES}\n{shown}"
        return msgspec.structs.replace(change, knows=change.after), note
    note = " The file had changed since you last read it; read it again if that matters."
    if base is None:
        return change, note
    try:
        return msgspec.structs.replace(change, knows=redo(base)), note
    except ToolError:
        return msgspec.structs.replace(change, forgets=True), note


def known_text(context: ToolContext, hash: str) -> str | None:
    """Return content that the model saw, if it is still kept."""
    data = context.known.get(hash) if hash else None
    found = decode(data) if data is not None else None
    return found[0] if found else None


def refuse_unknown_encoding(file: TextFile, shown: str, *texts: str) -> None:
    """Refuse to write non-ASCII text to a file whose encoding is only a guess.

    Raises:
        ToolError: the message names the likely encoding.
    """
    if file.codec.guessed and not file.codec.evident and not all(text.isascii() for text in texts):
        raise ToolError(
            f"{shown} is not UTF-8 and does not declare its encoding (it looks like {file.codec.name}), so"
            " only ASCII text can be written to it safely. Nothing was written. Use ASCII, or convert it"
            f" first: iconv -f {file.codec.name} -t utf-8"
        )


def short_diff(diff: str) -> str:
    """Return the hunks of a diff for the model, truncated if long."""
    lines = diff.split("\n")[2:]
    if len(lines) <= _MAX_SHOWN_LINES:
        return "\n".join(lines)
    return "\n".join([*lines[:_MAX_SHOWN_LINES], "… (more; read the file to see it)"])
