"""Search among tools by what they do."""

import math
import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from ..types.offer import ToolDefinition

_K, _B = 1.2, 0.4
"""The usual constants of BM25; descriptions differ in length for no good reason, so length counts little."""
_NAME_WEIGHT = 3
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
_STOP = frozenset(
    "a an and are as at be by can do for from get has have how i if in into is it its me my of on or our please"
    " tool that the their then there this to up use used using want we what when which will with you your".split()
)
_SUFFIXES = (
    "ations",
    "ation",
    "ments",
    "ment",
    "ings",
    "ing",
    "ies",
    "ied",
    "ers",
    "ed",
    "es",
    "er",
    "s",
    "e",
    "y",
)


class Entry(msgspec.Struct, frozen=True):
    """A tool that can be found."""

    name: str
    """For the model."""
    server: str
    tool: ToolDefinition


class ToolIndex:
    """An index of tools."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = sorted(entries, key=lambda entry: entry.name)
        self._words = [_weighted(entry) for entry in self._entries]
        self._lengths = [sum(words.values()) for words in self._words]
        self._mean = sum(self._lengths) / max(1, len(self._lengths))
        self._documents = Counter(word for words in self._words for word in words)

    def find(self, query: str, limit: int) -> list[Entry]:
        """Return the tools that fit a query best, the best first; names in full or in part count most."""
        exact = [entry for entry in self._entries if query.strip() in (entry.name, entry.tool.name)]
        terms = _terms(query)
        scored = [(self._score(at, terms), at) for at in range(len(self._entries))]
        ranked = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: (-pair[0], pair[1]))
        found = [*exact, *(self._entries[at] for _, at in ranked)]
        return list({entry.name: entry for entry in found}.values())[:limit]

    def _score(self, at: int, terms: Sequence[str]) -> float:
        words, total = self._words[at], 0.0
        norm = _K * (1 - _B + _B * self._lengths[at] / self._mean)
        for term in terms:
            if count := words.get(term, 0):
                rarity = math.log(
                    1 + (len(self._words) - self._documents[term] + 0.5) / (self._documents[term] + 0.5)
                )
                total += rarity * count * (_K + 1) / (count + norm)
        return total


def _weighted(entry: Entry) -> Counter[str]:
    tool = entry.tool
    properties = tool.input_schema.get("properties")
    words = Counter(_terms(tool.description) + _terms(tool.title))
    for term in _terms(tool.name) + _terms(entry.server):
        words[term] += _NAME_WEIGHT
    if isinstance(properties, dict):
        for name, schema in properties.items():
            words.update(_terms(str(name)))
            if isinstance(schema, dict) and isinstance(text := schema.get("description"), str):
                words.update(_terms(text))
    return words


def _terms(text: str) -> list[str]:
    words = [word.lower() for word in _WORD.findall(text)]
    return [_stem(word) for word in words if word not in _STOP]


def _stem(word: str) -> str:
    """Cut a common English ending, so that `lists`, `listing` and `listed` are one word."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word[: -len(suffix)]
            return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls" else word
    return word
