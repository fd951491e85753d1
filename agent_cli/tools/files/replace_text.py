"""One replacement in a text: located by increasingly lenient searches, applied and reported, or refused with what
the model needs to correct it. Shared by `edit_file` and `apply_patch`."""

import unicodedata
from collections.abc import Callable
from pathlib import PurePath

import msgspec

from agent_cli.workspace.editing import search
from agent_cli.workspace.editing.line_endings import LineView
from agent_cli.workspace.editing.nearest_match import nearest_region
from agent_cli.workspace.editing.normalize import TYPOGRAPHIC, typography
from agent_cli.workspace.editing.three_way import merge_texts
from agent_cli.workspace.editing.transplant import changes

from ..kit.base import AmbiguousEditError, ToolError
from .elision_check import PROSE_SUFFIXES
from .file_change import Edit, edit_label

_MIN_APPLIED_CHARS = 4
"""Minimum number of non-blank characters in a text to count as an edit already applied."""


class EditResult(msgspec.Struct, frozen=True):
    """A text after an edit."""

    text: str
    note: str = ""
    near: bool = False
    """True if the place matched only approximately, so that the model should see the result."""


class EditMessages(msgspec.Struct, frozen=True):
    """Wording of messages about a replacement."""

    label: str
    shown: str
    """Name of the file."""
    what: str = "`old`"
    hint: str = "Add surrounding lines to make it unique, or set replace_all."
    everywhere: bool = False
    """True if all occurrences are to be replaced."""


Seek = Callable[[str, str, str], search.Found]
"""Locates a passage in a text whose lines end with `\\n`. Arguments: text, old passage, new passage."""


def with_edit(text: str, edit: Edit, words: EditMessages, seek: Seek | None = None) -> EditResult:
    """Return `text` with one edit applied.

    Raises:
        ToolError: it cannot be applied; the message does not refer to other edits.
    """
    view = LineView(text)
    old, new = view.normal(edit.old), view.normal(edit.new)
    if not old:
        raise ToolError(f"{words.label}: `old` is empty. Use write_file to create a file. Nothing was changed.")
    if old == new:
        raise ToolError(f"{words.label}: old and new text are identical. Nothing was changed.")
    found_there = (
        seek(view.text, old, new) if seek else search.find(view.text, old, new, everywhere=edit.replace_all)
    )
    match found_there:
        case search.Match() as found:
            if (line := _made_before(view, old, new, found)) and not edit.replace_all:
                return EditResult(text, _already(words.label, line))
            return _edited(view, found, words)
        case search.Several(layer=layer, starts=starts):
            raise AmbiguousEditError(_ambiguous(view, starts, layer, words))
        case search.Missing() as missing:
            if missing.at is None and (line := _stands_alone(view, old, new)):
                return EditResult(text, _already(words.label, line))
            raise ToolError(_not_found(view, old, new, missing, words))


def _edited(view: LineView, found: search.Match, words: EditMessages) -> EditResult:
    label, shown = words.label, words.shown
    removed = "".join(view.text[start:end] for start, end, _ in found.pieces)
    added = "".join(new for _, _, new in found.pieces)
    note = typography_remark(removed, added, view.text, shown)
    if found.layer:
        line = view.line_of(found.spans[0][0])
        note = f" {label[0].upper()}{label[1:]} matched {found.layer} (line {line}).{note}"
    if found.inside_words and words.everywhere:
        note += f" Left as they are inside longer words: {_lines(view, found.inside_words)}."
    after = view.replaced(found.pieces)
    if after == view.original:
        raise ToolError(
            f"{label}: what stands in {shown} at line {view.line_of(found.spans[0][0])} is like `new` already,"
            f" {found.layer}; read it again if that difference matters. Nothing was changed."
        )
    return EditResult(after, note, found.near)


def _made_before(view: LineView, old: str, new: str, found: search.Match) -> int:
    """Return the line where `new`, which contains `old`, already surrounds the match of `old`; 0 if it does
    not."""
    inside = new.find(old)
    if inside < 0 or len(new.replace(old, "", 1).strip()) < _MIN_APPLIED_CHARS:
        return 0
    start = found.spans[0][0] - inside
    return view.line_of(start) if start >= 0 and view.text.startswith(new, start) else 0


def _stands_alone(view: LineView, old: str, new: str) -> int:
    """Return the line of the new text if it certainly is this edit applied earlier; otherwise 0.

    It must occur exactly once, contain something that `old` lacks, and share a line with `old`.
    """
    added = sum(len(text.strip()) for _, _, text in changes(old, new, fine=False))
    common = set(map(str.strip, old.split("\n"))) & set(map(str.strip, new.split("\n")))
    if added < _MIN_APPLIED_CHARS - 1 or not any(len(line) >= _MIN_APPLIED_CHARS for line in common):
        return 0
    return _only_line(view, new)


def _only_line(view: LineView, new: str) -> int:
    """Return the line of the only occurrence of a text; 0 if there is none or several."""
    at = view.text.find(new)
    if at < 0 or len(new.strip()) < _MIN_APPLIED_CHARS or view.text.find(new, at + 1) >= 0:
        return 0
    return 0 if search.cuts_a_word(view.text, at, at + len(new)) else view.line_of(at)


def _already(label: str, line: int) -> str:
    return f" {label[0].upper()}{label[1:]} was already applied: its new text is at line {line}."


def _ambiguous(view: LineView, starts: tuple[int, ...], layer: str, words: EditMessages) -> str:
    forgiven = f" ({layer})" if layer else ""
    return (
        f"{words.label}: {words.what} occurs several times in {words.shown}{forgiven}, at {_lines(view, starts)}."
        f" Nothing was changed. {words.hint}"
    )


def _lines(view: LineView, starts: tuple[int, ...]) -> str:
    """Format the lines at some offsets for a sentence."""
    numbers = list(dict.fromkeys(str(view.line_of(start)) for start in starts[: search.MAX_PLACES]))
    more = " and more" if len(starts) > search.MAX_PLACES else ""
    return f"{'line' if len(numbers) == 1 and not more else 'lines'} {', '.join(numbers)}{more}"


def _first_lines(view: LineView, starts: tuple[int, ...]) -> str:
    """Return the lines at some offsets, numbered as in `read_file`."""
    found = dict.fromkeys((view.line_of(start), _line_at(view.text, start)) for start in starts[:3])
    return "".join(f"\n{number}\t{line[:200]}" for number, line in found)


def _line_at(text: str, offset: int) -> str:
    return text[text.rfind("\n", 0, offset) + 1 :].partition("\n")[0]


def _not_found(view: LineView, old: str, new: str, missing: search.Missing, words: EditMessages) -> str:
    what, shown = f"{words.label}: {words.what}", words.shown
    if missing.at is not None:
        line = view.line_of(missing.at)
        said = f"{what} is at line {line} of {shown} only roughly, and {missing.doubt}."
    elif missing.inside_words:
        return (
            f"{what} stands in {shown} only inside longer words, {_lines(view, missing.inside_words)}. Nothing was"
            f" changed. If one of these is meant, write the whole word; better, the whole line:"
            f" {_first_lines(view, missing.inside_words)}"
        )
    elif line := _only_line(view, new):
        said = f"{what} does not occur in {shown}; `new` is at line {line}: if that is it, all is done."
    else:
        said = f"{what} does not occur in {shown}."
    if missing.skipped:
        said += f" (In files over {search.MAX_LAX_CHARS / 1e6:.0f} MB only exact text is found.)"
    return f"{said} Nothing was changed.\n{nearest_region(view.text, old)}"


def typography_remark(removed: str, added: str, elsewhere: str, name: str) -> str:
    """Return a sentence about typographic quotes and accents that a change added to source code or lost; usually
    empty."""
    notes = []
    fresh = [char for char in sorted(TYPOGRAPHIC.intersection(added).difference(removed)) if char not in elsewhere]
    if fresh and PurePath(name).suffix.lower() not in (*PROSE_SUFFIXES, ".html", ".htm", ""):
        notes.append(f" New in this file: {_named(fresh)}; replace it if that was not meant.")
    gone = [char for char in sorted(set(removed) - set(added)) if not char.isascii()]
    lost = [char for char in gone if added.count(_plain(char)) > removed.count(_plain(char))]
    if lost:
        notes.append(f" {_named(lost)} became plain ASCII; put it back if that was not meant.")
    return "".join(notes)


def _named(chars: list[str]) -> str:
    return ", ".join(f"{char} (U+{ord(char):04X})" for char in chars[:4])


def _plain(char: str) -> str:
    """Return the ASCII character likely to be typed for this one, otherwise the character itself."""
    plain = typography(char).text
    if not plain.isascii():
        plain = unicodedata.normalize("NFD", plain)[:1]
    return plain if plain and plain.isascii() else char


def with_edits(text: str, edits: tuple[Edit, ...], shown: str) -> EditResult:
    """Return `text` with all edits applied in sequence. An edit that is already applied counts as done.

    Raises:
        ToolError: an edit cannot be applied; the message says where and why.
    """
    now, notes, near = text, [], False
    for number, edit in enumerate(edits, 1):
        label = edit_label(number, len(edits))
        words = EditMessages(label, shown, everywhere=edit.replace_all)
        try:
            made = with_edit(now, edit, words)
        except ToolError as error:
            # Often, all edits of one call are written against the file as it was read.
            both = _beside_the_others(text, now, edit, words)
            if both is None:
                raise _after_others(error, number, now != text) from error
            made = EditResult(both)
        now, near = made.text, near or made.near
        notes.append(made.note)
    return EditResult(now, "".join(notes), near)


def _after_others(error: ToolError, number: int, changed: bool) -> ToolError:
    """Return the error, with a note on line numbers if earlier edits changed the text it refers to."""
    if not changed:
        return error
    before = "edit 1" if number == 2 else f"edits 1 to {number - 1}"
    return type(error)(f"{error}\n(Lines are as they would be after {before}, of which nothing was written.)")


def _beside_the_others(text: str, now: str, edit: Edit, words: EditMessages) -> str | None:
    """Apply an edit to the original text and merge it with the result of the edits before it; None if that
    fails."""
    if now == text:
        return None
    try:
        alone = with_edit(text, edit, words)
    except ToolError:
        return None
    return None if alone.note else merge_texts(text, alone.text, now)
