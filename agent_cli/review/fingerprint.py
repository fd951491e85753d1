"""Fingerprints of findings, which stay the same if lines move or code is reformatted."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import islice

_WORD = re.compile(r"\w+")
_LAYOUT = re.compile(r"[\s,;()\[\]{}'\"`\\]+")
"""Characters that formatters change: blanks, line breaks, quotes, brackets around wrapped code, trailing
commas."""
_DEFINITION = re.compile(
    r"^(\s*)(?:(?:export|public|private|protected|static|async|pub|default|abstract|final)\s+)*"
    r"(?:def|class|func|function|fn|interface|struct|impl|trait|module|sub)\b[^\w]*(\w+)"
)
_FILLER = frozenset(
    "a an and are as be by can for from in is it may might of on or the this that to when will with".split()
)
_LONGEST_CODE = 4000


def title_words(title: str) -> tuple[str, ...]:
    """Return the significant words of a title, in order."""
    plain = unicodedata.normalize("NFKC", title).casefold()
    return tuple(word for word in _WORD.findall(plain) if word not in _FILLER)


def similarity(one: str, other: str) -> float:
    """Return the similarity of two titles: the share of common words, 0 to 1."""
    first, second = set(title_words(one)), set(title_words(other))
    return len(first & second) / len(first | second) if first | second else 1.0


def plain_code(lines: Iterable[str]) -> str:
    """Return the beginning of code without the characters that formatting changes."""
    kept, size = [], 0
    for line in lines:
        kept.append(_LAYOUT.sub("", line))
        size += len(kept[-1])
        if size >= _LONGEST_CODE:
            break
    return "".join(kept)[:_LONGEST_CODE]


def enclosing(lines: Iterable[str]) -> list[str]:
    """Return for each line the name of its enclosing function or class; empty if there is none."""
    names = []
    outer: list[tuple[int, str]] = []
    """Indents and names of the enclosing definitions, innermost last, with increasing indents."""
    for text in lines:
        found = _DEFINITION.match(text)
        if found:
            while outer and outer[-1][0] >= len(found[1]):
                outer.pop()
            outer.append((len(found[1]), found[2]))
            names.append(found[2])
        else:
            indent = len(text) - len(text.lstrip())
            names.append(next((name for above, name in reversed(outer) if above < indent), ""))
    return names


def fingerprint(
    title: str,
    path: str,
    lines: Sequence[str],
    start: int,
    end: int,
    nth: int = 0,
    *,
    around: Sequence[str] | None = None,
) -> str:
    """Return the id of a finding: 16 hexadecimal digits.

    Args:
        title: its title; the order of words does not matter.
        path: the file.
        lines: lines of the file; none if it cannot be read.
        start: first line, from 1.
        end: last line, inclusive.
        nth: number of the finding among several that agree in everything else.
        around: `enclosing` of the lines, if known.
    """
    code = plain_code(islice(lines, max(0, start - 1), max(0, end)))
    names = enclosing(lines) if around is None else around
    name = names[start - 1] if 0 < start <= len(names) else ""
    parts = (" ".join(sorted(set(title_words(title)))), path, name, code, str(nth or ""))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
