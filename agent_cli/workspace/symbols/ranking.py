"""Rank files by importance: PageRank over the graph of files, in which mentioning a name is a vote for the files
that define it."""

import math
from collections.abc import Mapping, Sequence

import msgspec

from .languages import language_of
from .parse import Definition, Symbols

_DAMPING = 0.85
_FOCUSED_DAMPING = 0.5
"""With a focus, votes stay closer to their origin."""
_ROUNDS = 20
_MAX_DEFINERS = 20
"""A name defined in more files is not significant."""
_FOCUS_SHARE = 0.8
"""Share of the restart votes that goes to files in focus."""
_COMMON_STEMS = frozenset(
    "index main init __init__ __main__ mod lib utils util types test tests app setup".split()
)


class RankedFile(msgspec.Struct, frozen=True):
    """A file with its share of all votes, and its definitions with theirs."""

    path: str
    score: float
    definitions: tuple[tuple[float, Definition], ...]


def rank(files: Mapping[str, Symbols], focus: Sequence[str] = ()) -> list[RankedFile]:
    """Return all files, most referenced first. `focus` are words or parts of paths whose surroundings are
    preferred."""
    paths = sorted(files)
    definers = _definers(paths, files)
    graph = [_votes(number, path, files[path], definers) for number, path in enumerate(paths)]
    edges = [_by_file(votes) for votes in graph]
    start = _start(paths, files, focus)
    focused = max(start, default=0.0) > 1.001 * min(start, default=0.0)
    scores = _page_rank(edges, start, _FOCUSED_DAMPING if focused else _DAMPING)
    given = _given(graph, scores)
    words = [word.lower() for word in focus]
    ranked = [
        RankedFile(
            path,
            scores[number],
            tuple(
                (given.get((number, each.name), 0.0) + _bonus(each.name, words) * scores[number], each)
                for each in files[path].definitions
            ),
        )
        for number, path in enumerate(paths)
    ]
    return sorted(ranked, key=lambda each: (-each.score, each.path))


_Definers = dict[tuple[str, str], list[int]]
_Votes = list[tuple[int, str, float]]


def _family(path: str) -> str:
    language = language_of(path)
    return language.family if language else ""


def _definers(paths: list[str], files: Mapping[str, Symbols]) -> _Definers:
    """Return (language family, name) → numbers of the files that define the name; names of files have an empty
    family."""
    out: _Definers = {}
    for number, path in enumerate(paths):
        family = _family(path)
        for name in {each.name for each in files[path].definitions}:
            if len(name) > 2:
                out.setdefault((family, name), []).append(number)
        stem = path.rpartition("/")[2].partition(".")[0]
        if len(stem) > 3 and stem.lower() not in _COMMON_STEMS:
            out.setdefault(("", stem), []).append(number)
    return out


def _votes(number: int, path: str, symbols: Symbols, definers: _Definers) -> _Votes:
    """Return (file voted for, name, weight) for each name that a file mentions and does not define itself."""
    family = _family(path)
    own = {each.name for each in symbols.definitions}
    votes: _Votes = []
    for name, count in symbols.mentions.items():
        if name in own:
            continue
        for key in ((family, name), ("", name)):
            found = definers.get(key, ())
            if found and len(found) <= _MAX_DEFINERS:
                weight = math.sqrt(count) * _weight(name) / len(found)
                votes += [(other, name, weight) for other in found if other != number]
    return votes


def _weight(name: str) -> float:
    """Return the weight of a name. Compound names are significant; private ones are not, nor are plain words,
    which often are unrelated variables."""
    compound = "_" in name.strip("_") or name != name.lower()
    return (0.2 if name.startswith("_") else 1.0) * (0.1 if not compound else 3.0 if len(name) >= 8 else 1.0)


def _by_file(votes: _Votes) -> list[tuple[int, float]]:
    sums: dict[int, float] = {}
    for other, _, weight in votes:
        sums[other] = sums.get(other, 0.0) + weight
    total = sum(sums.values())
    return [(other, weight / total) for other, weight in sums.items()]


def _start(paths: list[str], files: Mapping[str, Symbols], focus: Sequence[str]) -> list[float]:
    words = [word.lower() for word in focus if word.strip()]
    hits = [
        any(
            word in path.lower() or any(word == each.name.lower() for each in files[path].definitions)
            for word in words
        )
        for path in paths
    ]
    even = 1.0 / max(1, len(paths))
    if not any(hits):
        return [even] * len(paths)
    share = _FOCUS_SHARE / sum(hits)
    return [(1 - _FOCUS_SHARE) * even + (share if hit else 0.0) for hit in hits]


def _page_rank(edges: list[list[tuple[int, float]]], start: list[float], damping: float) -> list[float]:
    scores = start
    for _ in range(_ROUNDS):
        lost = sum(score for score, out in zip(scores, edges, strict=True) if not out)
        later = [(1 - damping + damping * lost) * share for share in start]
        for score, out in zip(scores, edges, strict=True):
            for other, share in out:
                later[other] += damping * score * share
        change = sum(abs(a - b) for a, b in zip(scores, later, strict=True))
        scores = later
        if change < 1e-4:
            break
    return scores


def _given(graph: list[_Votes], scores: list[float]) -> dict[tuple[int, str], float]:
    """Return (file, name) → votes for each definition."""
    out: dict[tuple[int, str], float] = {}
    for score, votes in zip(scores, graph, strict=True):
        total = sum(weight for _, _, weight in votes)
        for other, name, weight in votes:
            key = (other, name)
            out[key] = out.get(key, 0.0) + score * weight / total
    return out


def _bonus(name: str, words: list[str]) -> float:
    """Return a definition's bonus. A definition in focus is shown with its file; others have a small bonus, so
    that something is shown of files without references."""
    return 1.0 if name.lower() in words else 0.02
