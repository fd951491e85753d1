"""Merge two changes of one text by lines. Changes that touch or overlap are a conflict, never a guess."""

from .unified_diff import Opcode, lines_of, opcodes


def merge_texts(base: str, ours: str, theirs: str) -> str | None:
    """Return `theirs` with the change from `base` to `ours` applied; None if both changed the same place.

    Lines end with `\\n`; a preceding `\\r` is part of the line. The same change on both sides counts once.
    """
    if ours == theirs or theirs == base:
        return ours
    if ours == base:
        return theirs
    lines, ours_lines, theirs_lines = lines_of(base), lines_of(ours), lines_of(theirs)
    mine = _changes(opcodes(lines, ours_lines), ours_lines)
    other = _changes(opcodes(lines, theirs_lines), theirs_lines)
    kept = [change for change in mine if change not in other]
    if any(one[0] <= two[1] and two[0] <= one[1] for one in kept for two in other):
        return None
    out: list[str] = []
    done = 0
    for start, end, new in sorted([*kept, *other]):
        out += [*lines[done:start], *new]
        done = end
    return "".join([*out, *lines[done:]])


_Change = tuple[int, int, list[str]]


def _changes(codes: list[Opcode], new: list[str]) -> list[_Change]:
    return [(a, b, new[c:d]) for tag, a, b, c, d in codes if tag != "equal"]
