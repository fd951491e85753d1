"""Detect private keys, and values identified by the text before them, using the table in `patterns`. Plain text
searches come first, since nearly every text has nothing to hide."""

from collections.abc import Iterator

from agent_cli.protocol.lazy_regex import lazy_regex

from . import patterns as shapes
from .span import Span

_PARTIAL_BEGIN = lazy_regex(r"-----BEGIN[ A-Z0-9]{0,60}-{0,5}")


def key_blocks(text: str) -> Iterator[Span]:
    """Yield private keys."""
    at = text.find(shapes.KEY_BEGINS)
    while at >= 0:
        match = shapes.KEY_BLOCK.match(text, at)
        if match:
            yield Span(*match.span(), "private key")
        at = text.find(shapes.KEY_BEGINS, match.end() if match else at + 1)


def open_key_block(text: str, base: int) -> int:
    """Return the start of a private key that may not be complete yet; the text's length if there is none."""
    at = text.find(shapes.KEY_BEGINS, base)
    while at >= 0:
        match = shapes.KEY_BLOCK.match(text, at)
        if match is None:
            begun = shapes.KEY_BEGIN.match(text, at)
            if text.count("\n", at) < shapes.LINES_OF_NO_KEY if begun else _PARTIAL_BEGIN.fullmatch(text, at):
                return at
        elif not shapes.KEY_END.search(match.group()) and text.count("\n", match.end()) < shapes.LINES_BEHIND_KEY:
            return at
        at = text.find(shapes.KEY_BEGINS, match.end() if match else at + 1)
    return len(text)


def in_context(text: str, assignments: bool, found: tuple[Span, ...]) -> Iterator[Span]:
    """Yield values that are secret because of the text before them on their line; `found` are secrets of other
    kinds."""
    places = _places(text)
    last = Span(0, 0, "")
    for context in (*shapes.ALWAYS, shapes.ASSIGNED) if assignments else shapes.ALWAYS:
        for at, start in _contexts(context, text, places):
            if last.start <= start < last.end:
                continue
            judged = shapes.JUDGED.match(text, start)
            if not judged or not context.judge(judged.group()):
                continue
            name = context.name or _assigned_name(text, at, found)
            if name and (match := shapes.VALUE.match(text, start)):
                last = Span(*match.span(1), name)
                yield last


def _places(text: str) -> dict[str, list[int]]:
    """Return the positions of the words of all contexts; words that are not there have no entry."""
    lowered = _lowered(text)
    places: dict[str, list[int]] = {}
    for word in shapes.CONTEXT_WORDS:
        at = lowered.find(word)
        while at >= 0:
            places.setdefault(word, []).append(at)
            at = lowered.find(word, at + len(word))
    return places


def _contexts(context: shapes.Context, text: str, places: dict[str, list[int]]) -> Iterator[tuple[int, int]]:
    """Yield the positions of a context's word and of the value after it."""
    for word in context.words if places else ():
        for at in places.get(word, ()):
            if match := context.before.match(text, at):
                yield at, match.end()


def _assigned_name(text: str, at: int, found: tuple[Span, ...]) -> str:
    """Return the name that contains a word at `at`: a generic one if it overlaps another secret, empty if the name
    shows that its value is not secret."""
    before = shapes.BEFORE_NAME.search(text, max(0, at - shapes.LONGEST_BEFORE), at)
    after = shapes.AFTER_NAME.match(text, at)
    first = before.start() if before else at
    last = min(after.end(), at + 40) if after else at
    name = text[first:last].strip(".-")
    if shapes.NO_SECRET_NAME.search(name):
        return ""
    is_name = at - first < shapes.LONGEST_BEFORE and not any(s.start < last and first < s.end for s in found)
    return name if is_name else "secret"


def open_values(text: str, token: int, assignments: bool) -> Iterator[int]:
    """Yield the start of values that a context makes secret and that may continue beyond the text; `token` is the
    start of its last token."""
    line = max(text.rfind("\n") + 1, token - shapes.LONGEST_CONTEXT)
    last = text[line:]
    places = _places(last)
    for context in (*shapes.ALWAYS, shapes.ASSIGNED) if assignments else shapes.ALWAYS:
        for _, start in _contexts(context, last, places):
            if token <= line + start < len(text):
                yield line + start


def _lowered(text: str) -> str:
    """Convert to lower case character by character, so that positions stay the same."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(c.lower() if c.isascii() else c for c in text)
