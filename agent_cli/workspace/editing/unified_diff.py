"""Unified diffs with line counts. Common heads and tails are removed first, so that the cost depends on the
changed region, not the file."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Sequence

import msgspec

_CONTEXT = 3
_MAX_COMPARED = 4000
"""Maximum lines of a changed region to align individually; a larger one is first split at lines that occur once in
both texts."""
_MAX_PAIRS = 1_000_000
"""Maximum pairs of lines to compare between such splits; the rest is shown as replaced."""
_RUN = 8
"""Number of consecutive lines treated as a unit if no single line is unique."""
_MAX_SHOWN = 2000

Opcode = tuple[str, int, int, int, int]
"""As in difflib: tag, start and end in the old lines, start and end in the new lines."""


class Diff(msgspec.Struct, frozen=True):
    """A unified diff; an empty text means no difference."""

    text: str
    added: int
    removed: int


def unified_diff(before: str, after: str, name: str, *, created: bool = False) -> Diff:
    """Return the diff from `before` to `after`, both with their own line endings.

    Beyond 2000 lines the text is truncated with a note; the counts are exact.
    """
    start, end = _window(before, after)
    skipped = before.count("\n", 0, start)
    old, new = lines_of(before[start : len(before) - end]), lines_of(after[start : len(after) - end])
    changed = [code for code in opcodes(old, new) if code[0] != "equal"]
    if not changed:
        return Diff("", 0, 0)
    added = sum(code[4] - code[3] for code in changed)
    removed = sum(code[2] - code[1] for code in changed)
    out = ["--- /dev/null" if created else f"--- a/{name}", f"+++ b/{name}"]
    for hunk in _hunks(changed, len(old), len(new)):
        out.extend(_hunk(hunk, old, new, skipped))
        if len(out) > _MAX_SHOWN:
            break
    if len(out) > _MAX_SHOWN:
        out[_MAX_SHOWN:] = [f"… more, not shown; in all {added} lines added, {removed} removed"]
    return Diff("\n".join(out) + "\n", added, removed)


def with_hunks(before: str, after: str, kept: Collection[int]) -> str:
    """Return `before` with some hunks of its diff to `after` applied, by their number from 0."""
    start, end = _window(before, after)
    old, new = lines_of(before[start : len(before) - end]), lines_of(after[start : len(after) - end])
    changed = [code for code in opcodes(old, new) if code[0] != "equal"]
    out, done = [before[:start]], 0
    for number, hunk in enumerate(_hunks(changed, len(old), len(new))):
        out += old[done : hunk[0][1]]
        done = hunk[-1][2]
        out += new[hunk[0][3] : hunk[-1][4]] if number in kept else old[hunk[0][1] : done]
    return "".join([*out, *old[done:], before[len(before) - end :]])


def lines_of(text: str) -> list[str]:
    """Return lines with their endings. Only `\\n` ends a line, so that form feeds and the like stay inside."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def opcodes(old: list[str], new: list[str]) -> list[Opcode]:
    """Return changes as (tag, old start, old end, new start, new end), without equal heads and tails."""
    head, old_end, new_end = _middle(old, new)
    if head == old_end and head == new_end:
        return []
    if max(old_end, new_end) - head > _MAX_COMPARED:
        cut = _cut(old[head:old_end], new[head:new_end])
        return [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in cut]
    import difflib

    matcher = difflib.SequenceMatcher(
        None, old[head:old_end], new[head:new_end], autojunk=old_end + new_end - 2 * head > 1000
    )
    return [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in matcher.get_opcodes()]


def _cut(old: list[str], new: list[str]) -> list[Opcode]:
    """Return the changes of a large region, split at lines, or otherwise runs of lines, that occur once in both. A
    remaining part that is too large counts as replaced."""
    anchors = _anchors(old, new, 1) or _anchors(old, new, _RUN)
    if not anchors:
        return [("replace", 0, len(old), 0, len(new))]
    codes: list[Opcode] = []
    first, second, left = 0, 0, _MAX_PAIRS
    for anchor in [*anchors, (len(old), len(new))]:
        ours, theirs = old[first : anchor[0]], new[second : anchor[1]]
        head, old_end, new_end = _middle(ours, theirs)
        left -= (old_end - head) * (new_end - head)
        found = opcodes(ours, theirs) if left > 0 else [("replace", head, old_end, head, new_end)]
        codes += [
            (tag, a + first, b + first, c + second, d + second)
            for tag, a, b, c, d in found
            if tag != "equal" and (a < b or c < d)
        ]
        first, second = anchor
    return codes


def _middle(old: list[str], new: list[str]) -> tuple[int, int, int]:
    """Return the start of the differing part in both, its end in the old and its end in the new."""
    head = equal_count(old, new)
    tail = equal_count(old[head:][::-1], new[head:][::-1])
    return head, len(old) - tail, len(new) - tail


def _anchors(old: list[str], new: list[str], run: int) -> list[tuple[int, int]]:
    """Return the starts of runs of lines that occur once in both texts, in the order of both."""
    ours, theirs = (list(zip(*(lines[at:] for at in range(run)), strict=False)) for lines in (old, new))
    mine, other = Counter(ours), Counter(theirs)
    place = {key: at for at, key in enumerate(theirs) if other[key] == 1}
    pairs = [(at, place[key]) for at, key in enumerate(ours) if mine[key] == 1 and key in place]
    return [pair for pair in _longest_rising(pairs) if pair != (0, 0)]


def _longest_rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs, ordered by the first element, in which the second increases too
    (patience sorting)."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, (_, second) in enumerate(pairs):
        pile = bisect_left(ends, second)
        before.append(last[pile - 1] if pile else -1)
        ends[pile : pile + 1] = [second]
        last[pile : pile + 1] = [index]
    chain: list[tuple[int, int]] = []
    at = last[-1] if last else -1
    while at >= 0:
        chain.append(pairs[at])
        at = before[at]
    return chain[::-1]


def _window(before: str, after: str) -> tuple[int, int]:
    """Return the number of characters at the start and at the end that are equal whole lines not shown in any
    hunk."""
    head = before.rfind("\n", 0, equal_count(before, after)) + 1
    for _ in range(_CONTEXT):
        head = before.rfind("\n", 0, max(0, head - 1)) + 1
    tail = len(before) - equal_count(before[head:][::-1], after[head:][::-1])
    for _ in range(_CONTEXT + 1):
        tail = before.find("\n", tail) + 1 or len(before)
    return head, len(before) - tail


def equal_count(one: Sequence[str], two: Sequence[str]) -> int:
    """Return the number of equal lines or characters from the start. Comparing whole slices is fast."""
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _hunks(changed: list[Opcode], old_len: int, new_len: int) -> list[list[Opcode]]:
    """Group nearby changes, with equal lines before, between and after."""
    groups: list[list[Opcode]] = []
    for code in changed:
        if groups and code[1] - groups[-1][-1][2] <= 2 * _CONTEXT:
            last = groups[-1][-1]
            groups[-1] += [("equal", last[2], code[1], last[4], code[3]), code]
        else:
            groups.append([code])
    return [_with_context(group, old_len, new_len) for group in groups]


def _with_context(group: list[Opcode], old_len: int, new_len: int) -> list[Opcode]:
    first, last = group[0], group[-1]
    before = min(_CONTEXT, first[1], first[3])
    after = min(_CONTEXT, old_len - last[2], new_len - last[4])
    head = ("equal", first[1] - before, first[1], first[3] - before, first[3])
    return [head, *group, ("equal", last[2], last[2] + after, last[4], last[4] + after)]


def _hunk(codes: list[Opcode], old: list[str], new: list[str], skipped: int) -> list[str]:
    first, last = codes[0], codes[-1]
    out = [
        f"@@ -{_range(skipped + first[1], skipped + last[2])} +{_range(skipped + first[3], skipped + last[4])} @@"
    ]
    # Hide carriage returns only if all lines had them and keep them: a new one must be visible.
    before, after = old[first[1] : last[2]], new[first[3] : last[4]]
    ends = "\r\n" if before and all(line.endswith("\r\n") for line in (*before, *after)) else "\n"
    for tag, old_start, old_end, new_start, new_end in codes:
        if tag == "equal":
            out.extend(_marked(" ", old[old_start:old_end], ends))
        else:
            out.extend(_marked("-", old[old_start:old_end], ends))
            out.extend(_marked("+", new[new_start:new_end], ends))
    return out


def _marked(mark: str, lines: list[str], ends: str) -> list[str]:
    out = []
    for line in lines[: _MAX_SHOWN + 1]:
        out.append(mark + line.removesuffix(ends))
        if not line.endswith("\n"):
            out.append("\\ No newline at end of file")
    return out


def _range(start: int, end: int) -> str:
    """Return the range of a hunk as in diff(1): counted from 1; if empty, the line before."""
    length = end - start
    first = start + 1 if length else start
    return str(first) if length == 1 else f"{first},{length}"
