"""The inside of Markdown blocks: runs of text with their looks, filled into rows.

Addresses are shown once each, code keeps its blanks, and a word is never cut where that would spoil it for
copying: an address or a path that is longer than a row stays in one piece, and the terminal breaks it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token as Mark

from ..protocol.sanitize import clean
from . import lines
from .theme import Piece, Role, Theme

PARSER = MarkdownIt("commonmark", {"html": False, "maxNesting": 200}).enable(["strikethrough", "table"])
PARSER.disable("reference")  # its text would vanish, and most of what refers to it stands in another block
_OPENS: dict[str, Role] = {"strong_open": "strong", "em_open": "emphasis", "s_open": "struck", "link_open": "link"}
_BLANKS = re.compile(r"( +|\n)")

_NO_GAP: Piece = ((), "")

Word = list[Piece]
"""What is not broken, in one look or more."""


def pieces(marks: Sequence[Mark], theme: Theme, base: tuple[Role, ...] = ()) -> list[Piece]:
    """Inline marks as text, with a line break where one is asked for."""
    found: list[Piece] = []
    looks: list[tuple[Role, ...]] = [base]
    links: list[tuple[str, int]] = []
    for mark in marks:
        if mark.type in _OPENS:
            looks.append((*looks[-1], _OPENS[mark.type]))
            if mark.type == "link_open":
                links.append((str(mark.attrs.get("href", "")), len(found)))
        elif mark.nesting < 0:
            looks.pop()
            if mark.type == "link_close":
                found += _address(*links.pop(), found, looks[-1])
        else:
            found += _leaf(mark, theme, looks[-1])
    return found


def _leaf(mark: Mark, theme: Theme, look: tuple[Role, ...]) -> list[Piece]:
    match mark.type:
        case "code_inline":
            code = safe(mark.content)
            return [((*look, "code"), code)] if theme.colour else [(look, f"`{code}`")]
        case "softbreak":
            return [(look, " ")]
        case "hardbreak":
            return [(look, "\n")]
        case "image":
            alt = safe(mark.content)
            return [(look, f"[image{': ' * bool(alt)}{alt}] ({safe(str(mark.attrs.get('src', '')))})")]
        case _:
            return [(look, safe(mark.content))]


def safe(text: str) -> str:
    """What the parser has read, made safe once more: Markdown can spell any character as an entity."""
    return text if text.isascii() and text.isprintable() else clean(text)


def _address(address: str, first: int, found: list[Piece], look: tuple[Role, ...]) -> list[Piece]:
    """Where a link leads, unless its text says so."""
    text = "".join(part for _, part in found[first:])
    said = {address, address.removeprefix("mailto:")}
    if not address or text in said or PARSER.normalizeLink(text) in said:
        return []
    return [(look, f" ({safe(address)})")]


def words(found: Iterable[Piece]) -> Iterator[tuple[Piece, Word]]:
    """Words, each with the blanks before it; `\\n` where a row ends."""
    gap, word = _NO_GAP, Word()
    for look, text in found:
        for part in _BLANKS.split(text):
            is_blank = part == "\n" or part == " " * len(part)
            parts = [] if is_blank else lines.atoms(part)
            if word and part and (is_blank or _breaks(word, parts[0])):
                yield gap, word
                gap, word = _NO_GAP, []
            if part and is_blank:
                gap = (look, "\n" if "\n" in (part, gap[1]) else gap[1] + part)
            for at, atom in enumerate(parts):
                if at:
                    yield gap, word
                    gap, word = _NO_GAP, []
                word.append((look, atom))
    if word:
        yield gap, word


def _breaks(word: Word, atom: str) -> bool:
    """Whether a row may end between a word and what follows it without a blank."""
    last = word[-1][1]
    return not (last.isascii() or atom.isascii()) and len(lines.atoms(last[-1] + atom)) > 1


def filled(found: Iterable[Piece], width: int, fold: bool = False) -> list[list[Piece]]:
    """Rows of at most `width` columns; a longer word has a row of its own or, with `fold`, several."""
    rows: list[list[Piece]] = [[]]
    used = 0
    for gap, word in words(found):
        own = _cells(word)
        if gap[1] == "\n" or (rows[-1] and used + len(gap[1]) + own > width):
            rows.append([])
            used = 0
        if rows[-1] and gap[1]:
            rows[-1].append(gap)
            used += len(gap[1])
        for number, part in enumerate(
            _folded(word, width) if own > width and (fold or not _whole(word)) else [word]
        ):
            if number:
                rows.append([])
                used = 0
            rows[-1] += part
            used += _cells(part)
    return rows


def _cells(word: Word) -> int:
    return lines.cells(word[0][1]) if len(word) == 1 else sum(lines.cells(text) for _, text in word)


def _whole(word: Word) -> bool:
    """Whether a word is worth more in one piece than within its row."""
    return all(text.isascii() for _, text in word)


def _folded(word: Word, width: int) -> Iterator[Word]:
    """A word in parts of at most `width` columns."""
    part, used = Word(), 0
    for look, text in word:
        for sign, own in lines.signs(text):
            if part and used + own > width:
                yield part
                part, used = [], 0
            part.append((look, sign))
            used += own
    yield part
