"""Full-text search with BM25 over names, groups, texts and details.

A word of the query also matches its synonyms, longer words with that prefix, and, if no text contains it, words
with similar spelling.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache

import msgspec

from .synonyms import ABBREVIATIONS, GROUPS

_K, _B = 1.2, 0.4
"""The usual constants of BM25. Length counts little, because descriptions differ in length for no good reason."""
_NAME_WEIGHT = 3.0
_GROUP_WEIGHT = 1.5
_DETAILS_WEIGHT = 0.5
_SYNONYM, _PREFIX = 0.6, 0.6
"""Weights of matches other than the word itself."""
_LIKENESS = 0.75
"""Minimum ratio (of `difflib`) at which an unknown word counts as misspelt."""
_NAMED_IN_FULL = 0.8
"""Bonus factor for a document whose name the query covers."""
_OF_NAMED_GROUP = 2.0
"""Factor for a document whose group the query names."""
_LONGEST_WORD = 40
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
"""Words within a run of letters and digits: `getHTTPStatus` has three."""
_RUN = re.compile(r"[^\W_]+")
_UNSPACED = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
"""Scripts without spaces between words, which are split into pairs of characters."""
_STOP = frozenset(
    "a an and are as at be by can do does for from has have how if in into is it its of on or our please so some"
    " tool that the their then there this to up us used using want was we were what when which will with would you"
    " your".split()
)
_SUFFIXES = "ations ation ments ment ings ing ies ied ers ed es er s e y".split()


class Document(msgspec.Struct, frozen=True):
    """A searchable document."""

    key: str
    """Key returned by searches; a query equal to it ranks the document first."""
    name: str
    text: str
    """Description of the document."""
    group: str = ""
    """Group that it belongs to, such as the server of a tool."""
    details: str = ""
    """Words with little weight, such as names of parameters."""


class SearchIndex:
    """An index of documents."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._documents = sorted(documents, key=lambda document: document.key)
        words = [_weighted(document) for document in self._documents]
        lengths = [sum(each.values()) for each in words]
        mean = sum(lengths) / max(1, len(lengths))
        self._norms = [_K * (1 - _B + _B * length / mean) for length in lengths]
        self._names = [frozenset(_terms(document.name)) for document in self._documents]
        self._groups = [frozenset(_terms(document.group)) for document in self._documents]
        self._postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for at, counts in enumerate(words):
            for word, count in counts.items():
                self._postings[word].append((at, count))

    def find(self, query: str, limit: int) -> list[str]:
        """Return the keys of the documents that best match a query, best first; matches of names, in full or in
        part, count most."""
        sought = query.strip()
        exact = [document.key for document in self._documents if sought in (document.key, document.name)]
        meanings = [
            self._meanings(term) or self._spelled_alike(term)
            for term in dict.fromkeys(_terms(re.sub(r"[A-Za-z0-9]+", _in_full, query)))
        ]
        scores = self._scores(meanings)
        ranked = sorted(scores, key=lambda at: (-scores[at], at))
        return list(dict.fromkeys([*exact, *(self._documents[at].key for at in ranked)]))[:limit]

    def _scores(self, meanings: Sequence[Mapping[str, float]]) -> dict[int, float]:
        """Return the score of each document: the sum over query words of the best score among each word's
        meanings."""
        scores: dict[int, float] = defaultdict(float)
        for meaning in meanings:
            best: dict[int, float] = {}
            for word, weight in meaning.items():
                for at, score in self._matches(word):
                    best[at] = max(best.get(at, 0.0), weight * score)
            for at, score in best.items():
                scores[at] += score
        asked = {word for meaning in meanings for word, weight in meaning.items() if weight >= _SYNONYM}
        literal = {word for meaning in meanings for word, weight in meaning.items() if weight == 1}
        return {at: score * self._factor(at, asked, literal) for at, score in scores.items()}

    def _factor(self, at: int, asked: set[str], literal: set[str]) -> float:
        name = self._names[at] - self._groups[at]
        covered = len(name & asked) / len(name) if name else 0.0
        return (1 + _NAMED_IN_FULL * covered) * (_OF_NAMED_GROUP if self._groups[at] & literal else 1.0)

    def _matches(self, word: str) -> Iterator[tuple[int, float]]:
        postings = self._postings.get(word, ())
        rarity = math.log(1 + (len(self._documents) - len(postings) + 0.5) / (len(postings) + 0.5))
        for at, count in postings:
            yield at, rarity * count * (_K + 1) / (count + self._norms[at])

    def _meanings(self, term: str) -> dict[str, float]:
        """Return word in documents → weight, for the meanings of a query word."""
        found = {word: _SYNONYM for word in _synonyms().get(term, ()) if word in self._postings}
        if len(term) >= 3:
            longer = (word for word in self._postings if word.startswith(term))
            found |= {word: max(_PREFIX, found.get(word, 0.0)) for word in longer}
        if term in self._postings:
            found[term] = 1.0
        return found

    def _spelled_alike(self, term: str) -> dict[str, float]:
        """Return the meanings of a word that no document contains, as a misspelling or a compound."""
        import difflib

        if not 3 <= len(term) <= _LONGEST_WORD:
            return {}
        known = sorted({*self._postings, *_synonyms()})  # deterministic across processes
        near = difflib.get_close_matches(term, known, n=1, cutoff=_LIKENESS)
        near = near or [word for word in known if len(word) >= 4 and term.startswith(word)]
        return {meant: _PREFIX * weight for word in near for meant, weight in self._meanings(word).items()}


def _weighted(document: Document) -> dict[str, float]:
    """Return word → weight for a document."""
    words: dict[str, float] = defaultdict(float)
    _count(words, _terms(document.text), 1.0)
    _count(words, _terms(document.name), _NAME_WEIGHT)
    _count(words, _terms(document.group), _GROUP_WEIGHT)
    _count(words, _terms(document.details), _DETAILS_WEIGHT)
    return words


def _count(words: dict[str, float], terms: Iterable[str], weight: float) -> None:
    for term in terms:
        words[term] += weight


def _in_full(found: re.Match[str]) -> str:
    """Return a word of a query, and what it abbreviates."""
    word = found.group()
    full = ABBREVIATIONS.get(word.lower())
    return f"{word} {full}" if full else word


def _terms(text: str) -> list[str]:
    words = (word for run in _RUN.findall(text) for word in _words(run))
    return [_stem(word) for word in words if word not in _STOP]


def _words(run: str) -> Iterator[str]:
    """Yield the words of a run of letters and digits, in lower case."""
    if _UNSPACED.search(run):
        yield from (run[at : at + 2] for at in range(max(1, len(run) - 1)))
    elif run.isascii():
        yield from (word.lower() for word in _WORD.findall(run))
    else:
        yield run.lower()


@cache
def _synonyms() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for group in GROUPS:
        stems = {_stem(word) for word in group}
        for stem in stems:
            found[stem] |= stems - {stem}
    return {stem: frozenset(others) for stem, others in found.items()}


@lru_cache(20_000)
def _stem(word: str) -> str:
    """Strip a common English suffix, so that `lists`, `listing` and `listed` are equal."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word[: -len(suffix)]
            return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls" else word
    return word
