"""Word-level changes in lines: match old and new lines, and find the spans in which they differ.

Pure and bounded: a `WorkLimit` caps the cost of a diff, lines that are too long or too different have no spans,
and large blocks of lines are matched only if both sides have the same number.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

Span = tuple[int, int]
"""Start and end in a line, in characters."""

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_MAX_TOKENS = 300
_MAX_LINE = 2000
_MAX_GRID = 600
"""Maximum number of line pairs compared in a block."""
_MAX_COST = 1_500_000
"""Maximum number of token pairs compared in a diff."""
_ALIKE = 0.45
"""Minimum share of common characters, ignoring blanks, for two lines to match."""


class WorkLimit:
    """The remaining work budget of a diff."""

    def __init__(self) -> None:
        self._left = _MAX_COST

    def spend(self, cost: int) -> bool:
        """Spend part of the budget; return True if it was sufficient."""
        self._left -= cost
        return self._left >= 0


def changes(
    before: Sequence[str], after: Sequence[str], budget: WorkLimit
) -> Iterator[tuple[int, int, tuple[Span, ...], tuple[Span, ...]]]:
    """Yield matching old and new lines, by index, with the spans in which each differs."""
    old, new = (
        [_TOKEN.findall(line) if len(line) <= _MAX_LINE else [] for line in side] for side in (before, after)
    )
    for one, other in _pairs(old, new, budget):
        ours, theirs = old[one], new[other]
        short = 0 < len(ours) <= _MAX_TOKENS and 0 < len(theirs) <= _MAX_TOKENS
        if not short or not budget.spend(len(ours) * len(theirs)):
            continue
        matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
        codes = matcher.get_opcodes()
        same = sum(_weight(ours[a:b]) for tag, a, b, _, _ in codes if tag == "equal")
        if same >= _ALIKE * max(_weight(ours), _weight(theirs)):
            left = _spans(ours, [(a, b) for tag, a, b, _, _ in codes if tag != "equal"])
            right = _spans(theirs, [(c, d) for tag, _, _, c, d in codes if tag != "equal"])
            yield one, other, left, right


def _weight(tokens: Sequence[str]) -> int:
    """Return the number of non-blank characters."""
    return sum(len(token) for token in tokens if not token.isspace())


def _spans(tokens: Sequence[str], ranges: Sequence[Span]) -> tuple[Span, ...]:
    """Convert ranges of tokens to ranges of characters; those separated only by blanks are merged."""
    places = [0]
    for token in tokens:
        places.append(places[-1] + len(token))
    found: list[Span] = []
    for first, last in ranges:
        if first == last:
            continue
        if found and not "".join(tokens[places.index(found[-1][1]) : first]).strip():
            found[-1] = (found[-1][0], places[last])
        else:
            found.append((places[first], places[last]))
    return tuple(found)


def _pairs(old: list[list[str]], new: list[list[str]], budget: WorkLimit) -> list[tuple[int, int]]:
    """Return the matching old and new lines, by ascending index."""
    if len(old) == len(new):
        return [(at, at) for at in range(len(old))]
    if len(old) * len(new) > _MAX_GRID or not budget.spend(20 * len(old) * len(new)):
        return []
    ours, theirs = ([Counter(filter(str.strip, tokens)) for tokens in side] for side in (old, new))
    return _best_path([[_likeness(one, other) for other in theirs] for one in ours])


def _likeness(one: "Counter[str]", other: "Counter[str]") -> float:
    common = sum(len(token) * count for token, count in (one & other).items())
    most = max(sum(len(token) * count for token, count in side.items()) for side in (one, other))
    share = common / most if most else 0.0
    return share if share >= _ALIKE else 0.0


def _best_path(likeness: list[list[float]]) -> list[tuple[int, int]]:
    """Return the pairs, ascending in both indices, with the greatest total similarity."""
    rows, columns = len(likeness), len(likeness[0]) if likeness else 0
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for one in range(rows - 1, -1, -1):
        for other in range(columns - 1, -1, -1):
            paired = best[one + 1][other + 1] + likeness[one][other]
            best[one][other] = max(best[one + 1][other], best[one][other + 1], paired)
    found, one, other = [], 0, 0
    while one < rows and other < columns:
        if likeness[one][other] and best[one][other] == best[one + 1][other + 1] + likeness[one][other]:
            found.append((one, other))
            one, other = one + 1, other + 1
        elif best[one][other] == best[one + 1][other]:
            one += 1
        else:
            other += 1
    return found
