"""Transfer a change between two versions of a passage to a third version, which equals the first after folding.
Unchanged characters stay those of the third version."""

import re

from .line_endings import Piece
from .normalize import Fold, NormalizedText
from .unified_diff import lines_of, opcodes

_TOKEN = re.compile(r"\w+|[ \t]+|[^\w \t]")
_MAX_PAIRS = 250_000
"""Maximum pairs of words to compare within changed lines; beyond that, the lines are replaced whole."""


def changes(old: str, new: str, *, fine: bool = True) -> list[Piece]:
    """Return the changes from `old` to `new` by lines, and within lines by words if `fine`."""
    old_lines, new_lines = lines_of(old), lines_of(new)
    offsets = [0]
    for line in old_lines:
        offsets.append(offsets[-1] + len(line))
    pieces: list[Piece] = []
    for tag, a, b, c, d in opcodes(old_lines, new_lines):
        if tag == "equal":
            continue
        before, after = "".join(old_lines[a:b]), "".join(new_lines[c:d])
        pieces += _within(offsets[a], before, after) if fine else [(offsets[a], offsets[b], after)]
    return pieces


def _within(start: int, old: str, new: str) -> list[Piece]:
    ours, theirs = _TOKEN.findall(old), _TOKEN.findall(new)
    if len(ours) * len(theirs) > _MAX_PAIRS:
        return [(start, start + len(old), new)]
    import difflib

    offsets = [start]
    for token in ours:
        offsets.append(offsets[-1] + len(token))
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    return [
        (offsets[a], offsets[b], "".join(theirs[c:d]))
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    ]


def carried(old: str, new: str, there: NormalizedText, at: int, fold: Fold) -> list[Piece] | None:
    """Return the change `old` → `new` at `there.text[at:]`, which begins with the folded `old`. Offsets are those
    of the original. None if a change begins or ends inside a folded piece."""
    ours = fold(old)
    pieces: list[Piece] = []
    for start, end, text in changes(old, new):
        first, last = ours.folded(start), ours.folded(end)
        if first is None or last is None:
            return None
        left, right = there.start(at + first), there.end(at + last)
        if left is None or right is None:
            return None
        if right < left:  # insertion next to blanks at a line end: new lines go after them, blanks replace them
            before, behind = right, left
            left = behind if text.startswith("\n") else before
            right = behind if text.endswith((" ", "\t")) else left
        pieces.append((left, right, text))
    return pieces


def replaced(text: str, pieces: list[Piece]) -> str:
    """Return `text` with pieces replaced, given in order and not overlapping."""
    out: list[str] = []
    done = 0
    for start, end, new in pieces:
        out += (text[done:start], new)
        done = end
    return "".join([*out, text[done:]])


def transferred(old: str, new: str, there: str, fold: Fold) -> str:
    """Return `there`, which equals `old` after folding, with the change applied; `new` if it is not equal."""
    folded = fold(there)
    if folded.text != fold(old).text:
        return new
    pieces = carried(old, new, folded, 0, fold)
    return new if pieces is None else replaced(there, pieces)
