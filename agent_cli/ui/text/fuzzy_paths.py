"""Fuzzy matching of paths, best first: too fast to be noticed even with fifty thousand paths."""

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence

_MOST_COMPARED = 2_000
"""Maximum number of paths of a class that are ranked; the first ones are nearest to the root."""


class Fragment:
    """The typed part of a path."""

    def __init__(self, text: str) -> None:
        self._query = text.lower()
        self._name = self._query.rstrip("/")
        self.folder, _, self.name = text.rpartition("/")
        """The folder named, or empty, and the part after it."""
        self._wants_hidden = text.startswith(".") or "/." in text
        letters = "".join(f"[^{re.escape(char)}]*+{re.escape(char)}" for char in self._query)
        self._in_order = re.compile(letters, re.DOTALL).match

    def best(self, paths: Iterable[str], count: int, *, loosely: bool) -> list[str]:
        """Return the `count` best matches: names or paths with this prefix, names that contain it, and, if
        `loosely`, paths that contain its letters in order. Hidden paths match only a fragment that asks for them;
        an empty fragment matches paths near the root."""
        if not self._query:
            return heapq.nsmallest(count, self._open(paths), key=lambda path: (path.rstrip("/").count("/"), path))
        begins: list[str] = []
        holds: list[str] = []
        loose: list[str] = []
        for path in self._open(paths):
            low = path.lower()
            if self._in_order(low) is None:
                continue
            start = low.rfind("/", 0, len(low) - 1) + 1
            if low.startswith(self._query) or low.startswith(self._name, start):
                begins.append(path)
                if len(begins) >= _MOST_COMPARED:
                    break
            elif low.find(self._query, start) >= 0:
                holds.append(path)
            else:
                loose.append(path)
        found = _shortest(count, begins)
        if len(found) < count:
            found += _shortest(count - len(found), holds)
        if loosely and len(found) < count:
            found += self._densest(count - len(found), loose)
        return found

    def _open(self, paths: Iterable[str]) -> Iterable[str]:
        if self._wants_hidden:
            return paths
        return (path for path in paths if not (path.startswith(".") or "/." in path))

    def _densest(self, count: int, paths: Sequence[str]) -> Iterator[str]:
        """Yield the paths in which the letters are closest together."""
        spans = ((span(path.lower(), self._query) or 0, len(path), path) for path in paths[:_MOST_COMPARED])
        return (path for *_, path in heapq.nsmallest(count, spans))


def _shortest(count: int, paths: Sequence[str]) -> list[str]:
    return heapq.nsmallest(count, paths[:_MOST_COMPARED], key=lambda path: (len(path), path))


def span(text: str, sought: str) -> int | None:
    """Return the length of the part of `text` that contains the letters of `sought`, measured backwards from the
    end of their first occurrence; None if they do not occur in order. Linear in the text."""
    at = -1
    for char in sought:
        at = text.find(char, at + 1)
        if at < 0:
            return None
    end = at
    at += 1
    for char in reversed(sought):
        at = text.rfind(char, 0, at)
    return end - at
