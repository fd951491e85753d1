"""Recognize secrets by keyed hashes when their values are no longer available.

For each encoding of a value only a fingerprint is stored, never the value: a keyed hash, the length, and a
twelve-bit checksum of its start. The last two make the search linear: few positions of a text match a checksum,
and only there is a hash computed. Pure.
"""

import hashlib
import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec

from .span import Span

GRAM = 4
"""Number of characters in the checksum of a start."""
_GRAM_BITS = 0xFFF
_END = 32
"""Number of characters hashed at each end, so that the cost per position is independent of the value's length."""
_MOST_REMEMBERED = 100_000


class Fingerprint(NamedTuple):
    """Fingerprint of one encoding of a value."""

    begins: int
    """Checksum of its first characters, cut to twelve bits."""
    length: int
    digest: str


class KnownSecret(msgspec.Struct, frozen=True):
    """A value that was a secret once."""

    name: str
    forms: tuple[Fingerprint, ...]
    """Fingerprints, that of the plain value first."""


def known_secret(key: bytes, name: str, value: str, others: Iterable[str]) -> KnownSecret:
    """Return the fingerprints of a value and its other encodings."""
    forms = (value, *(form for form in sorted(others) if form != value))
    return KnownSecret(name, tuple(Fingerprint(_begins(form), len(form), digest(key, form)) for form in forms))


def digest(key: bytes, form: str) -> str:
    """Return the keyed hash of an encoded value."""
    ends = form if len(form) <= 2 * _END else form[:_END] + form[-_END:]
    data = ends.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, key=key, digest_size=16).hexdigest()


def _begins(text: str) -> int:
    return zlib.crc32(text[:GRAM].encode("utf-8", "surrogatepass")) & _GRAM_BITS


class Recognizer:
    """Finds known secrets in texts."""

    def __init__(self, key: bytes = b"", known: Collection[KnownSecret] = ()) -> None:
        self._key = key
        self._known = known
        self._by_beginning: dict[int, list[tuple[int, str, str]]] = {}
        for secret in known:
            for form in secret.forms:
                found = (form.length, form.digest, secret.name)
                self._by_beginning.setdefault(form.begins, []).append(found)
        self._by_gram: dict[str, list[tuple[int, str, str]]] = {}
        """Cache of lookups: most texts repeat the same few thousand starts."""
        self.longest = max((form.length for secret in known for form in secret.forms), default=0)
        """Length of the longest encoding in characters; 0 if no secrets are known."""

    def apart(self, values: dict[str, str]) -> "tuple[dict[str, str], Recognizer]":
        """Return the values under the names they had first, and a recognizer of the remaining secrets."""
        own = {digest(self._key, value): value for value in values} if self._known else {}
        first = {own[each.forms[0].digest]: each.name for each in self._known if each.forms[0].digest in own}
        others = [each for each in self._known if each.forms[0].digest not in own]
        return {**values, **first}, Recognizer(self._key, others)

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the known secrets in a text."""
        if not self.longest:
            return
        known, size = self._by_gram, len(text)
        for at in range(size - GRAM + 1):
            gram = text[at : at + GRAM]
            forms = known.get(gram)
            if forms is None:
                forms = self._beginning_with(gram)
            for length, hashed, name in forms:
                if at + length <= size and digest(self._key, text[at : at + length]) == hashed:
                    yield Span(at, at + length, name)

    def possible_secret_start(self, text: str, start: int) -> int:
        """Return the position, from `start` on, at which the end of `text` may be the start of a known secret; its
        length if none."""
        size = len(text)
        for at in range(max(start, size - self.longest + 1), size):
            gram = text[at : at + GRAM]
            if len(gram) < GRAM or any(at + form[0] > size for form in self._beginning_with(gram)):
                return at
        return size

    def safe_prefix_length(self, text: str) -> int:
        """Return the length of the prefix of a short text that certainly contains no part of a known secret; -1 if
        uncertain."""
        if not self.longest:
            return len(text)
        sure = max(0, len(text) - GRAM + 1)
        return -1 if any(self._beginning_with(text[at : at + GRAM]) for at in range(sure)) else sure

    def _beginning_with(self, gram: str) -> list[tuple[int, str, str]]:
        forms = self._by_gram.get(gram)
        if forms is None:
            if len(self._by_gram) >= _MOST_REMEMBERED:
                self._by_gram.clear()
            forms = self._by_gram[gram] = self._by_beginning.get(_begins(gram), [])
        return forms
