"""Match a passage by whole lines, with the indentation derived from corresponding lines. The change is then made
to the file's own lines, not the passage's."""

import re
from bisect import bisect_right
from functools import cached_property

import msgspec

from .indentation import IndentMap, indent_of, unit_of
from .line_endings import Piece
from .normalize import NormalizedText, typography
from .transplant import transferred
from .unified_diff import opcodes

_COMMENT_LINE = re.compile(r"^(?://|/\*|<!--|\"\"\"|'''|(?:#+|\*|--|;+|%+)(?=\s|$))")
_COMMENT_TAIL = re.compile(r"\s(?:#|//|/\*|<!--)\s+(?=\S+\s+\S+\s+\S).*$")
_PROSE = re.compile(r"^(?:[\w'’,:.?!()\"“”/-]+ ){5,}[\w'’,:.?!()\"“”/-]+$")
_PROSE_WORD = re.compile(r"\b(?:the|of|to|an|that|this|which|are)\b", re.IGNORECASE)
_KEYED = re.compile(r"^[-\s]*[\w.-]+:(?:\s|$)")
_NUMBER = re.compile(r"\d+")
NEAR_RATIO = 0.95
"""Minimum share of equal characters for a place to count as meant."""
_RIVAL_RATIO = 0.8
"""From this ratio on, another place may have been meant; applies if inserted or missing lines make the best one
less certain."""
_NO_RIVAL = 2.0
_MIN_SURE_LINES = 3
"""Number of equal lines required for each line that has merely drifted."""
_MAX_EXTRA = 2
_MAX_CANDIDATES = 40
_MAX_VOTES = 200
_MAX_WORK = 4_000_000
"""Pairs of characters to compare when searching for near places, about half a second; beyond that, none is
found."""
_MAX_TELLING = 5000
"""Number of lines examined to determine a file's indentation."""


class Lines:
    """The lines of a text without line endings, and their offsets."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")

    @cached_property
    def offsets(self) -> list[int]:
        """Offset of each line, plus one for the end of the text."""
        offsets = [0]
        for line in self.lines:
            offsets.append(offsets[-1] + len(line) + 1)
        return offsets

    @cached_property
    def unit(self) -> str:
        """One level of indentation."""
        return unit_of(self.lines[:_MAX_TELLING])

    def number_at(self, offset: int) -> int:
        """Return the line number, from 1, of an offset."""
        return bisect_right(self.offsets, offset)

    @cached_property
    def typographic(self) -> NormalizedText:
        """The text with plain typography."""
        return typography(self.text)

    def stripped(self) -> list[str]:
        """Return the lines without surrounding blanks."""
        return [line.strip(" \t") for line in self.lines]

    def folded(self) -> list[str]:
        """Return the lines with plain typography and without surrounding blanks."""
        return [line.strip(" \t") for line in self.typographic.text.split("\n")]

    def squeezed(self) -> list[str]:
        """Return the lines with plain typography and without any blanks."""
        return ["".join(line.split()) for line in self.folded()]

    def piece(self, first: int, last: int, new: list[str]) -> Piece:
        """Return the piece that replaces lines `first` up to `last` (excluded)."""
        start = self.offsets[first]
        if first == last:
            return (start, start, "".join(f"{line}\n" for line in new))
        if new:
            return (start, self.offsets[last] - 1, "\n".join(new))
        if last < len(self.lines):
            return (start, self.offsets[last], "")
        return (max(0, start - 1), len(self.text), "")


class Passage(msgspec.Struct, frozen=True):
    """The old and the new lines."""

    old: tuple[str, ...]
    new: tuple[str, ...]


def passage(old: str, new: str) -> Passage:
    """Return the lines of a passage. A line ending after the last line has no meaning here."""
    return Passage(_split(old), _split(new))


def _split(text: str) -> tuple[str, ...]:
    if not text:
        return ()
    lines = text.split("\n")
    return tuple(lines if lines[-1] or len(lines) == 1 else lines[:-1])


class LineRange(msgspec.Struct, frozen=True):
    """A place that matches a passage."""

    start: int
    end: int
    pieces: tuple[Piece, ...] | None
    """The change at that place; None if the result would be uncertain."""
    why: str = ""
    """Why there are no pieces."""
    deeper: bool = False
    """True if the passage matches exactly, but with less indentation than the lines it is part of."""


def same_lines(keys: list[str], wanted: list[str], limit: int) -> list[int]:
    """Return the first lines of the places where all wanted keys occur in sequence."""
    rare = max(range(len(wanted)), key=lambda index: len(wanted[index]))
    if not wanted[rare]:
        return []
    starts: list[int] = []
    at = -1
    while len(starts) < limit:
        try:
            at = keys.index(wanted[rare], at + 1)
        except ValueError:
            break
        start = at - rare
        if start >= 0 and keys[start : start + len(wanted)] == wanted:
            starts.append(start)
    return starts


def placed(there: Lines, what: Passage, at: list[int | None], keys_equal: list[bool]) -> LineRange:
    """Return the change of `what` at the place of its old lines. `at` has the file's line for each of them;
    `keys_equal` tells whether it is equal except for blanks and typography."""
    real = [index for index in at if index is not None]
    start, end = there.offsets[real[0]], there.offsets[real[-1] + 1] - 1
    pairs = [
        (indent_of(mine), indent_of(there.lines[index]))
        for mine, index in zip(what.old, at, strict=True)
        if index is not None and mine.strip() and there.lines[index].strip()
    ]
    others = [indent_of(line) for line in what.new if line.strip()]
    indents = _indents(pairs, others, there.unit, bool(what.old[0]) and not indent_of(what.old[0]))
    if indents is None:
        return LineRange(start, end, None, "its indentation does not fit that of `old` line by line")
    pieces: list[Piece] = []
    for tag, a, b, c, d in opcodes(list(what.old), list(what.new)):
        if tag == "equal":
            continue
        span = _span(at, keys_equal, a, b)
        if span is None:
            return LineRange(start, end, None, "lines that would change differ there from `old`")
        new = _in_place(there, what, (a, b), (c, d), span[0], indents)
        if new is None:
            return LineRange(start, end, None, "it is not clear how to indent the new lines there")
        pieces.append(there.piece(*span, new))
    return LineRange(start, end, tuple(pieces))


def _indents(pairs: list[tuple[str, str]], others: list[str], unit: str, loose_first: bool) -> IndentMap | None:
    """Return the map of indentations; the first line may have been written without its indentation."""
    found = IndentMap(pairs, others, unit)
    if not found.sound and loose_first and len(pairs) > 1:
        found = IndentMap(pairs[1:], others, unit)
    return found if found.sound else None


def _span(at: list[int | None], keys_equal: list[bool], first: int, last: int) -> tuple[int, int] | None:
    """Return the file's lines that correspond to old lines `first` up to `last`; None if uncertain."""
    if first == last:
        before = at[first - 1] if first else None
        after = at[first] if first < len(at) else None
        if before is not None and after is not None:
            return (after, after) if after == before + 1 else None
        if after is not None and first == 0:
            return (after, after)
        return (before + 1, before + 1) if before is not None and first == len(at) else None
    places = at[first:last]
    if None in places or not all(keys_equal[first:last]):
        return None
    start = places[0]
    if start is None or places != list(range(start, start + len(places))):
        return None
    return (start, start + len(places))


def _in_place(
    there: Lines, what: Passage, old: tuple[int, int], new: tuple[int, int], at: int, indents: IndentMap
) -> list[str] | None:
    """Return the new lines with the file's indentation and typography; None if uncertain."""
    mine, wanted = what.old[old[0] : old[1]], what.new[new[0] : new[1]]
    real = there.lines[at : at + len(mine)]
    bodies = transferred(_bodies(mine), _bodies(wanted), _bodies(real), typography).split("\n") if wanted else []
    out = []
    for index, (line, body) in enumerate(zip(wanted, bodies, strict=True)):
        if not line.strip():
            out.append("")
            continue
        indent = indents.real(indent_of(line))
        if index < len(mine) and indent_of(mine[index]) == indent_of(line) and real[index].strip():
            indent = indent_of(real[index])
        if indent is None:
            return None
        out.append(indent + body)
    return out


def _bodies(lines: tuple[str, ...] | list[str]) -> str:
    return "\n".join(line.lstrip(" \t") for line in lines)


def near_places(there: Lines, what: Passage) -> list[LineRange]:
    """Return places that contain nearly all of the old lines: only words in comments or prose or blanks within
    lines differ, or there are a few extra lines. More than one place means that the choice is ambiguous."""
    keys = there.squeezed()
    wanted = Lines("\n".join(what.old)).squeezed()
    if sum(bool(key) for key in wanted) < 2:
        return []
    found: dict[int, tuple[float, LineRange | None]] = {}
    threshold = _NO_RIVAL
    work = WorkLimit(_MAX_WORK)
    for start in likely_starts(keys, wanted):
        ratio, aligned, extra = _aligned(there, what, keys, wanted, start, work)
        if work.done:  # places not compared might match equally well
            return []
        if aligned is None or ratio < NEAR_RATIO:
            if ratio >= _RIVAL_RATIO:
                found.setdefault(start, (ratio, None))
            continue
        first = next(index for index in aligned if index is not None)
        sure = [index is not None and keys[index] == key for index, key in zip(aligned, wanted, strict=True)]
        found[first] = (ratio, placed(there, what, aligned, sure))
        if extra:  # the match is less certain, so similar places count
            threshold = _RIVAL_RATIO
    return _unrivalled(there, found, threshold)


def _unrivalled(
    there: Lines, found: dict[int, tuple[float, LineRange | None]], threshold: float
) -> list[LineRange]:
    """Return the good places, along with places so similar that the choice is ambiguous."""
    good = {first: place for first, (_, place) in found.items() if place is not None}
    rivals = [
        first
        for first, (ratio, place) in found.items()
        if place is None and ratio >= threshold and all(abs(first - other) > _MAX_EXTRA for other in good)
    ]
    if not good:
        return []
    return [*good.values(), *(LineRange(there.offsets[at], there.offsets[at], None) for at in rivals)]


def likely_starts(keys: list[str], wanted: list[str]) -> list[int]:
    """Return the likely start lines of the wanted lines, likeliest first."""
    places: dict[str, list[int]] = {key: [] for key in wanted if len(key) > 2}
    for number, key in enumerate(keys):
        if key in places:
            places[key].append(number)
    votes: dict[int, int] = {}
    for index, key in enumerate(wanted):
        found = places.get(key, ())
        for number in found if len(found) <= _MAX_VOTES else ():
            votes[number - index] = votes.get(number - index, 0) + 1
    return sorted(votes, key=lambda start: (-votes[start], start))[:_MAX_CANDIDATES]


class WorkLimit:
    """Remaining work for comparisons, in pairs of characters."""

    def __init__(self, most: int) -> None:
        self._left = most

    @property
    def done(self) -> bool:
        """True if there was more work than allowed."""
        return self._left < 0

    def take(self, one: str, two: str) -> bool:
        """Return True if two texts may still be compared."""
        self._left -= len(one) * len(two)
        return not self.done


def _aligned(
    there: Lines, what: Passage, keys: list[str], wanted: list[str], start: int, work: WorkLimit
) -> tuple[float, list[int | None] | None, int]:
    """Return the similarity of the wanted text around `start`; the place of each line, if certain; and the number
    of extra lines in between."""
    first = max(0, start - _MAX_EXTRA)
    window = keys[first : start + len(wanted) + _MAX_EXTRA]
    at, soft, beyond_doubt = _line_by_line(wanted, window, first)
    ratio = _ratio(wanted, keys, at, work)
    beyond_doubt = beyond_doubt and all(_drifted(what.old[mine], there.lines[real]) for mine, real in soft)
    real_lines = [index for index in at if index is not None]
    too_soft = len(soft) * _MIN_SURE_LINES >= len(real_lines) + _MIN_SURE_LINES
    if not beyond_doubt or not real_lines or too_soft:
        return ratio, None, 0
    between = set(range(real_lines[0], real_lines[-1])) - set(real_lines)
    extra = sum(bool(keys[index]) for index in between)
    return ratio, at if extra <= min(_MAX_EXTRA, len(real_lines) // 2) else None, extra


def _line_by_line(
    wanted: list[str], window: list[str], first: int
) -> tuple[list[int | None], list[tuple[int, int]], bool]:
    """Return the place of each wanted line, where the window begins at line `first`; the pairs that are not equal;
    and whether every line has a place."""
    import difflib

    at: list[int | None] = [None] * len(wanted)
    soft: list[tuple[int, int]] = []
    complete = True
    for tag, a, b, c, d in difflib.SequenceMatcher(None, wanted, window, autojunk=False).get_opcodes():
        if tag == "replace" and a == 0:  # the window is wider than the passage
            c = max(c, d - b)
        elif tag == "replace" and b == len(wanted):
            d = min(d, c + b - a)
        if tag == "equal" or (tag == "replace" and b - a == d - c):
            at[a:b] = range(first + c, first + d)
            soft += zip(range(a, b), range(first + c, first + d), strict=True) if tag == "replace" else ()
        elif tag != "insert":
            complete = complete and not any(wanted[a:b])
    return at, soft, complete


def _ratio(wanted: list[str], keys: list[str], at: list[int | None], work: WorkLimit) -> float:
    """Return the share of equal characters, or an upper bound of it if it is too small for a rival."""
    import difflib

    pairs = [
        (key[:500], "" if index is None else keys[index][:500]) for key, index in zip(wanted, at, strict=True)
    ]
    total = sum(len(key) + len(real) for key, real in pairs)
    could_match = sum(2 * min(len(key), len(real)) for key, real in pairs)
    matched = sum(2 * len(key) for key, real in pairs if key == real)
    if could_match < _RIVAL_RATIO * total:
        return could_match / total
    for key, real in pairs:
        if key != real and key and real and work.take(key, real):
            matcher = difflib.SequenceMatcher(None, key, real, autojunk=False)
            matched += 2 * sum(block.size for block in matcher.get_matching_blocks())
    return matched / total if total else 0.0


def _drifted(mine: str, real: str) -> bool:
    """Return True if two lines differ only in a comment or in prose."""
    mine, real = mine.strip(), real.strip()
    if not mine or not real or _NUMBER.findall(mine) != _NUMBER.findall(real):
        return False
    if all(_COMMENT_LINE.match(line) or _is_prose(line) for line in (mine, real)):
        return True
    code = [_COMMENT_TAIL.sub("", line) for line in (mine, real)]
    return code[0] != mine and code[1] != real and code[0].split() == code[1].split()


def _is_prose(line: str) -> bool:
    return bool(_PROSE.match(line) and _PROSE_WORD.search(line) and not _KEYED.match(line))


def by_stripped(there: Lines, what: Passage, limit: int) -> list[LineRange]:
    """Return places that differ only in blanks around lines."""
    return _by_keys(there, what, there.stripped(), [line.strip(" \t") for line in what.old], limit)


def by_folded(there: Lines, what: Passage, limit: int) -> list[LineRange]:
    """Return places that differ only in blanks around lines and in typography."""
    return _by_keys(there, what, there.folded(), Lines("\n".join(what.old)).folded(), limit)


def _by_keys(there: Lines, what: Passage, keys: list[str], wanted: list[str], limit: int) -> list[LineRange]:
    sure = [True] * len(wanted)
    return [
        placed(there, what, list(range(start, start + len(wanted))), sure)
        for start in same_lines(keys, wanted, limit)
    ]
