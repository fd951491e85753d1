"""Recognize secrets by keyed hashes when their values are no longer available.

For each encoding of a value only a fingerprint is stored, never the value: a keyed hash, the length, and a
twelve-bit checksum of its start. The last two make the search linear: few positions of a text match a checksum,
and only there is a hash computed. Pure.
"""

import hashlib
import re
import zlib
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import NamedTuple

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex

from .span import Span

GRAM = 4
"""Number of characters in the checksum of a start."""
_GRAM_BITS = 0xFFF
_END = 32
"""Number of characters hashed at each end, so that the cost per position is independent of the value's length."""
_MOST_REMEMBERED = 10_000
_MARK = re.compile(b"\x01")
_NOT_ASCII = lazy_regex(r"[^\x00-\x7f]")


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


def _all_begins(data: bytes) -> tuple[bytes, bytes]:
    """Return `_begins` for each position of an ASCII text, as the low and the high bytes. A CRC is linear: that of
    four bytes is the exclusive or of a value for each byte, so whole texts are looked up and combined at once."""
    size = len(data) - GRAM + 1
    halves = []
    for tables in _crc_tables():
        combined = 0
        for at, table in enumerate(tables):
            combined ^= int.from_bytes(data.translate(table)[at : at + size], "little")
        halves.append(combined.to_bytes(size, "little"))
    return halves[0], halves[1]


@cache
def _crc_tables() -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Return tables of the low and of the high bytes that each byte adds to a checksum, by its place."""
    zero = zlib.crc32(bytes(GRAM))

    def added(place: int, byte: int) -> int:
        alone = zlib.crc32(bytes(place) + bytes((byte,)) + bytes(GRAM - 1 - place))
        return (alone if place == 0 else alone ^ zero) & _GRAM_BITS

    values = [[added(place, byte) for byte in range(256)] for place in range(GRAM)]
    low = tuple(bytes(value & 0xFF for value in row) for row in values)
    return low, tuple(bytes(value >> 8 for value in row) for row in values)


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
        size = len(text)
        for at in self._possible_starts(text):
            for length, hashed, name in self._beginning_with(text[at : at + GRAM]):
                if at + length <= size and digest(self._key, text[at : at + length]) == hashed:
                    yield Span(at, at + length, name)

    def _possible_starts(self, text: str) -> list[int]:
        """Return the positions in a text at which a known secret may start, in order."""
        if len(text) < GRAM:
            return []
        low, high = _all_begins(text.encode("ascii", "replace"))
        marks = bytearray(256)
        for begins in self._by_beginning:
            marks[begins & 0xFF] = 1
        places = [match.start() for match in _MARK.finditer(low.translate(marks))]
        found = {at for at in places if low[at] | high[at] << 8 in self._by_beginning}
        for match in _NOT_ASCII.finditer(text):  # the checksums are of UTF-8, and are not right around these
            found.update(range(max(0, match.start() - GRAM + 1), min(match.start() + 1, len(text) - GRAM + 1)))
        return sorted(found)

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
