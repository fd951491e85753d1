"""Locate and apply the hunks of a patch in a file: by their context, using line numbers and enclosing definitions
from the patch to choose between candidates."""

import re

from agent_cli.workspace.editing.line_endings import LineView
from agent_cli.workspace.editing.search import Found, Match, Missing, find

from ..kit.base import ToolError
from .file_change import Edit
from .patch_format import Hunk
from .replace_text import EditMessages, EditResult, with_edit

_CLEARLY_NEARER = 3


def with_hunks(text: str, hunks: tuple[Hunk, ...], shown: str) -> EditResult:
    """Return `text` with all hunks applied in order.

    Raises:
        ToolError: a hunk cannot be applied; the message says which, where and why.
    """
    notes, near, drift, done = [], False, 0, 0
    for hunk in hunks:
        made, at = _with_hunk(text, hunk, shown, drift, done)
        drift += _length(hunk.new) - _length(hunk.old)
        done = max(done, at)
        notes.append(made.note)
        text, near = made.text, near or made.near
    return EditResult(text, "".join(notes), near)


def _with_hunk(text: str, hunk: Hunk, shown: str, drift: int, done: int) -> tuple[EditResult, int]:
    """Return the text with a hunk applied, and the line after it."""
    label = f"the hunk at line {hunk.line} of the patch"
    if not hunk.old:
        return _inserted(text, hunk, label, shown, drift)
    if all(kind == " " for kind, _ in hunk.body):
        return EditResult(text), done
    aim = _HunkTarget(text, hunk, drift, done)
    words = EditMessages(
        label, shown, "its old text", "Give more lines of context, or an `@@` line from above it."
    )
    if aim.lost:
        raise ToolError(
            f"{label}: no line {aim.lost!r}, as its `@@` says, stands in {shown}. Nothing was changed."
        )
    made = with_edit(text, Edit(hunk.old, hunk.new), words, aim.seek)
    return made, aim.behind


def _length(text: str) -> int:
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


class _HunkTarget:
    """Chooses the place that a hunk refers to."""

    def __init__(self, text: str, hunk: Hunk, drift: int, done: int) -> None:
        self._view = LineView(text)
        self._hunk = hunk
        self._drift = drift
        self._done = done
        self.lost = ""
        """An anchor that does not occur in the file."""
        self.behind = done
        self.anchor = self._anchored()
        """Line of the innermost anchor, from 1; None if several lines match."""

    def seek(self, text: str, old: str, new: str) -> Found:
        """Locate the passage, as `with_edit` asks for it."""
        found = find(text, old, new, whole_lines=True, choose=self._choose)
        if not isinstance(found, Match):
            return found
        start, end = found.spans[0]
        line = self._view.line_of(start)
        if self.anchor is not None and not self._belongs(line):
            return Missing("that is not below the line its `@@` names", start)
        self.behind = self._view.line_of(end) + _length(new) - _length(old)
        return found

    def _choose(self, starts: list[int]) -> int | None:
        lines = [self._view.line_of(start) for start in starts]
        if self._hunk.at_end:
            return len(starts) - 1
        if self.anchor is not None:
            below = [index for index, line in enumerate(lines) if self._belongs(line)]
            return below[0] if below else None
        if self._hunk.at is not None:
            return _nearest(lines, self._hunk.at + self._drift)
        later = [index for index, line in enumerate(lines) if line >= self._done > 0]
        return later[0] if len(later) == 1 else None

    def _anchored(self) -> int | None:
        """Return the line of the innermost anchor, from 1; None if several lines match."""
        lines = self._view.text.split("\n")
        at = 0
        for anchor in self._hunk.anchors:
            same = [number for number, line in enumerate(lines[at:], at) if line.strip() == anchor]
            same = same or [number for number, line in enumerate(lines[at:], at) if anchor in line]
            if not same:
                self.lost = anchor
                return None
            if len(same) > 1 and anchor == self._hunk.anchors[-1]:
                return None
            at = same[0] + 1
        return at or None

    def _belongs(self, line: int) -> bool:
        """Return True if a line is below the anchor, with no other definition of the anchor's kind in between."""
        if self.anchor is None or line < self.anchor:
            return False
        lines = self._view.text.split("\n")
        anchor = lines[self.anchor - 1]
        word, depth = _first_word(anchor), _depth(anchor)
        between = lines[self.anchor : line - 1]
        return not any(_depth(each) <= depth and _first_word(each) == word for each in between if each.strip())


def _first_word(line: str) -> str:
    found = re.search(r"\w+", line)
    return found.group() if found else ""


def _depth(line: str) -> int:
    return len(line.expandtabs(8)) - len(line.expandtabs(8).lstrip())


def _nearest(lines: list[int], stated: int) -> int | None:
    """Return the index of the line nearest to the stated one, if it is clearly nearer than the others."""
    order = sorted(range(len(lines)), key=lambda index: abs(lines[index] - stated))
    first, second = (abs(lines[index] - stated) for index in order[:2])
    return order[0] if first * _CLEARLY_NEARER < second else None


def _inserted(text: str, hunk: Hunk, label: str, shown: str, drift: int) -> tuple[EditResult, int]:
    """Insert new lines without context: after the stated line, below the anchor, or at the end."""
    view = LineView(text)
    lines = view.text.split("\n")
    count = len(lines) - (lines[-1] == "")
    aim = _HunkTarget(text, hunk, 0, 0)
    line = count
    if hunk.anchors:
        if aim.lost or aim.anchor is None:
            raise ToolError(f"{label}: its `@@` line does not occur exactly once in {shown}. Nothing was changed.")
        line = aim.anchor
    elif hunk.at is not None:
        line = hunk.at + drift
        if line > count:
            raise ToolError(f"{label}: {shown} has {count} lines, not {line}. Nothing was changed.")
    at = sum(len(each) + 1 for each in lines[:line])
    new = hunk.new
    if at > len(view.text):
        at, new = len(view.text), f"\n{new.removesuffix(chr(10))}"
    return EditResult(view.replaced([(at, at, new)])), line + _length(hunk.new)
