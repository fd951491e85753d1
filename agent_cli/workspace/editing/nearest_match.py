"""Help for an edit whose text was not found: the most similar region of the file, with line numbers and visible
white space, where most such edits go wrong."""

import re

from .line_match import WorkLimit

_MAX_LINES = 20_000
_MAX_SHOWN = 14
_MAX_WIDTH = 160
_MAX_COMPARED = 1000
_MAX_WORK = 4_000_000


def nearest_region(text: str, wanted: str) -> str:
    """Return a few sentences and lines for the model."""
    lines = text.split("\n")[:_MAX_LINES]
    sought = wanted.strip("\n").split("\n")
    start = _by_equal_lines(lines, sought)
    if start is None:
        start = _by_similar_line(lines, sought)
    if start is None:
        return "Nothing in the file resembles it; read the file again."
    region = lines[start : start + len(sought)]
    same = [line.strip() for line in region] == [line.strip() for line in sought]
    verdict = "It differs in white space only" if same else "The nearest region is this"
    shown = _visible(lines, start, sought)
    return f"{verdict} (· is a space, → a tab, at the start and end of lines):\n{shown}"


def _by_equal_lines(lines: list[str], sought: list[str]) -> int | None:
    """Return the start of the place with most of the sought lines, ignoring white space."""
    places: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        places.setdefault(line.strip(), []).append(number)
    votes: dict[int, int] = {}
    for index, line in enumerate(sought):
        hits = places.get(line.strip(), ())
        if len(line.strip()) > 2 and len(hits) <= 200:
            for hit in hits:
                votes[hit - index] = votes.get(hit - index, 0) + 1
    if not votes:
        return None
    best = max(votes, key=lambda start: (votes[start], -start))
    return max(0, best)


def _by_similar_line(lines: list[str], sought: list[str]) -> int | None:
    """Return the start of the place where the longest sought line has its best match."""
    import difflib

    index, key = max(enumerate(sought), key=lambda pair: len(pair[1].strip()))
    key = key.strip()[:300]
    words = set(re.findall(r"\w{3,}", key))
    shared = {
        number: len(both)
        for number, line in enumerate(lines)
        if (both := words.intersection(re.findall(r"\w{3,}", line[:300])))
    }
    likeliest = sorted(shared, key=lambda number: -shared[number])[:_MAX_COMPARED]
    work = WorkLimit(_MAX_WORK)
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(key)
    best, best_ratio = None, 0.55
    for number in likeliest:
        line = lines[number].strip()[:300]
        matcher.set_seq1(line)
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio and work.take(line, key):
            ratio = matcher.ratio()
            if ratio > best_ratio:
                best, best_ratio = number, ratio
    return None if best is None else max(0, best - index)


def _visible(lines: list[str], start: int, sought: list[str]) -> str:
    """Return the differing lines and their neighbours, up to a limit, with … for omitted lines."""
    end = min(len(lines), start + len(sought))
    differing = [number for number in range(start, end) if lines[number] != sought[number - start]]
    wanted = {near for number in differing for near in (number - 1, number, number + 1)} or {start}
    numbers = sorted(number for number in wanted if 0 <= number < len(lines))[:_MAX_SHOWN]
    out = []
    for before, number in zip([numbers[0] - 1, *numbers], numbers, strict=False):
        out += ["…"] if number > before + 1 else []
        out.append(f"{number + 1}\t{_marked(lines[number])}")
    return "\n".join(out)


def _marked(line: str) -> str:
    body = line.strip(" \t\r")
    head, _, tail = line.partition(body) if body else (line, "", "")
    if len(body) > _MAX_WIDTH:
        body = f"{body[:_MAX_WIDTH]}…"
    return f"{_white(head)}{body}{_white(tail)}"


def _white(text: str) -> str:
    return text.replace(" ", "·").replace("\t", "→").replace("\r", "␍")
