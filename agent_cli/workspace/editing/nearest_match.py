"""Help for an edit whose text was not found: the most similar region of the file, with line numbers and visible
white space, where most such edits go wrong."""

import re

from .line_match import WorkLimit, likely_starts

_MAX_LINES = 20_000
_MAX_SHOWN = 14
_MAX_WIDTH = 160
_MAX_COMPARED = 1000
_MAX_WORK = 4_000_000


def nearest_region(text: str, wanted: str) -> str:
    """Return a few sentences and lines for the model."""
    if "[masked: " in wanted and "[masked: " not in text:
        return (
            "`[masked: …]` stands for a secret that you are not shown, so no text with it is found:"
            " match the lines beside it."
        )
    lines = text.split("\n")[:_MAX_LINES]
    sought = wanted.strip("\n").split("\n")
    stripped, wanted_lines = ([line.strip() for line in some] for some in (lines, sought))
    likely = likely_starts(stripped, wanted_lines)
    start = max(0, likely[0]) if likely else _by_similar_line(lines, sought)
    if start is None:
        return "Nothing in the file resembles it; read the file again."
    same = stripped[start : start + len(sought)] == wanted_lines
    verdict = "It differs in white space only" if same else "The nearest region is this"
    shown = _visible(lines, start, sought)
    return f"{verdict} (· is a space, → a tab, at the start and end of lines):\n{shown}"


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
