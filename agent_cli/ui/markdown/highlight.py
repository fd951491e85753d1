"""Code highlighting line by line, as code arrives, by Pygments. Imported on first use.

A lexer's stack of states carries over from line to line, so that a docstring is highlighted on all of its lines.
Constructs that a lexer matches only with a single expression over several lines (a block comment) are tracked by
their closing delimiter. Each line is scanned once at the same cost, however long the code is.
"""

from functools import lru_cache
from typing import Any

import msgspec
from pygments.lexer import ExtendedRegexLexer, Lexer, RegexLexer  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.token import Comment, Error, Generic, Keyword, Name, Number, String, Token  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]

from ..text.theme import Piece, Role, Theme

_MAX_LINE = 1000
_MAX_STACK = 50
_ROLES: dict[Any, Role] = {
    Comment: "comment",
    Comment.Preproc: "keyword",
    Keyword: "keyword",
    String: "string",
    Number: "number",
    Name.Function: "strong",
    Name.Class: "strong",
    Name.Decorator: "number",
    Name.Tag: "keyword",
    Generic.Inserted: "added",
    Generic.Deleted: "removed",
    Generic.Subheading: "hunk",
    Generic.Heading: "strong",
}
_PAIRS = (("/*", "*/"), ("<!--", "-->"), ("{-", "-}"), ("(*", "*)"), ("--[[", "]]"), ("`", "`"))
"""Delimiters of comments and strings that may span lines, in one language or another."""


_LONG: tuple[tuple[Role, ...], ...] = (("comment",), ("string",))
"""Roles of constructs that may span several lines."""
_FIRST = {"PHP": ("root", "php")}
"""Initial lexer states of languages that do not start in `root` alone."""


class _State(msgspec.Struct, frozen=True):
    """Lexer state at the beginning of a line."""

    stack: tuple[str, ...]
    close: str = ""
    """Delimiter that closes the open comment or string, if the lexer has no state for it."""
    look: tuple[Role, ...] = ()
    """Roles of the open comment or string."""


class CodeLines:
    """Highlights the lines of a piece of code, in order."""

    def __init__(self, language: str, plain: tuple[Role, ...] = ()) -> None:
        """`plain` are the roles for lines of an unknown language."""
        self._lexer = _lexer(language)
        self._plain = plain
        self._state = _State(_first(self._lexer))

    def line(self, text: str, theme: Theme) -> str:
        """Return the next line, in colour."""
        return theme.painted(self.pieces(text)) if theme.colour else text

    def partial_line(self, text: str, theme: Theme) -> str:
        """Return the unfinished next line, in colour."""
        return theme.painted(self._pieces(text)[0]) if theme.colour else text

    def pieces(self, text: str) -> list[Piece]:
        """Return the next line as pieces with their roles."""
        pieces, self._state = self._pieces(text)
        return pieces

    def _pieces(self, text: str) -> tuple[list[Piece], _State]:
        if self._lexer is None:
            return [(self._plain, text)], self._state
        if len(text) > _MAX_LINE:
            return [((), text)], self._state
        before, rest, state = _inside(text, self._state)
        pieces: list[Piece] = [(self._state.look, before)]
        if not state.close:
            tokens, stack = _lexed(self._lexer, rest, state.stack)
            if "".join([value for _, value in tokens]) != f"{rest}\n":  # use the tokens only if no text is lost
                return [((), text)], self._state
            at, close, look = _opening(self._lexer, rest, tokens) or (len(rest), "", ())
            pieces += _first_chars(tokens, at)
            pieces.append((look, rest[at:]))
            state = _State(stack, close, look)
        return pieces, state


_ALIASES = {
    "yml": "yaml",
    "h": "c",
    "hpp": "cpp",
    "cc": "cpp",
    "mjs": "js",
    "cjs": "js",
    "kt": "kotlin",
    "cs": "csharp",
}


def language_of(path: str) -> str:
    """Return the language of a file by its extension; empty if unknown."""
    ending = path.rpartition("/")[2].rpartition(".")[2].lower() if "." in path.rpartition("/")[2] else ""
    name = _ALIASES.get(ending, ending)
    return name if _lexer(name) is not None else ""


def _first_chars(tokens: list[tuple[Any, str]], count: int) -> list[Piece]:
    """Return the first `count` characters as pieces with their roles."""
    pieces: list[Piece] = []
    for kind, value in tokens:
        if count <= 0:
            break
        pieces.append((_look(kind), value[:count]))
        count -= len(value)
    return pieces


def _inside(text: str, state: _State) -> tuple[str, str, _State]:
    """Split a line at the end of a construct open before it; return both parts and the state of the rest."""
    if not state.close:
        return "", text, state
    at = text.find(state.close)
    if at < 0:
        return text, "", state
    at += len(state.close)
    return text[:at], text[at:], _State(state.stack)


@lru_cache(maxsize=512)
def _look(kind: Any) -> tuple[Role, ...]:
    while kind is not Token:
        if kind in _ROLES:
            return (_ROLES[kind],)
        kind = kind.parent
    return ()


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False) if language else None
    except ClassNotFound:
        return None


def _first(lexer: Lexer | None) -> tuple[str, ...]:
    return _FIRST.get(lexer.name if lexer else "", ("root",))


def _lexed(lexer: Lexer, text: str, stack: tuple[str, ...]) -> tuple[list[tuple[Any, str]], tuple[str, ...]]:
    """Return the tokens of a line, and the lexer states for the next one."""
    text += "\n"
    if not isinstance(lexer, RegexLexer) or isinstance(lexer, ExtendedRegexLexer):
        return [(kind, value) for _, kind, value in lexer.get_tokens_unprocessed(text)], stack
    states, tokens, at = list(stack), list[tuple[Any, str]](), 0
    rules_of, token_type = lexer._tokens, type(Token)
    for _ in range(4 * len(text) + 100):
        for matches, action, following in rules_of[states[-1]]:
            if found := matches(text, at):
                if type(action) is token_type:
                    tokens.append((action, found.group()))
                elif action is not None:
                    tokens += [(kind, value) for _, kind, value in action(lexer, found) if value]
                at = found.end()
                if following is not None:
                    _go(states, following)
                break
        else:
            if at >= len(text):
                break
            tokens.append((Token if text[at] == "\n" else Error, text[at]))
            states = ["root"] if text[at] == "\n" else states
            at += 1
    return tokens, tuple(states) if len(states) <= _MAX_STACK else _first(lexer)


def _go(states: list[str], following: Any) -> None:
    """Change the stack of states as a lexer rule says."""
    if isinstance(following, int):  # remove states, but never the first
        del states[max(1, len(states) + following) if following < 0 else len(states) :]
        return
    for name in (following,) if isinstance(following, str) else following or ():
        if name == "#pop":
            del states[max(1, len(states) - 1) :]
        else:
            states.append(states[-1] if name == "#push" else name)


@lru_cache(maxsize=64)
def _pairs(lexer: Lexer) -> tuple[tuple[str, str, tuple[Role, ...]], ...]:
    """Return the delimiter pairs of this language that its lexer does not handle with states."""
    found = []
    first = _first(lexer)
    plain = len(_lexed(lexer, "x", first)[1])
    for start, close in _PAIRS:
        whole = [token for token in _lexed(lexer, f"{start} x {close}", first)[0] if token[1]]
        opened, stack = _lexed(lexer, f"{start} x", first)
        look = _look(whole[0][0])
        stays = look in {_look(kind) for kind, value in opened if "x" in value}
        managed = len(stack) > plain and (stays or start == close)
        if look in _LONG and whole[0][1].startswith(start) and not managed:
            found.append((start, close, look))
    return tuple(found)


def _opening(lexer: Lexer, text: str, tokens: list[tuple[Any, str]]) -> tuple[int, str, tuple[Role, ...]] | None:
    """Return the position of a comment or string that this line leaves open, its delimiter and its roles."""
    pairs = [pair for pair in _pairs(lexer) if pair[0] in text]
    at = 0
    for kind, value in tokens if pairs else ():
        for start, close, look in pairs:
            if text.startswith(start, at) and close not in text[at + len(start) :]:
                own = _look(kind)
                if own not in _LONG or (own == look and value.startswith(start)):
                    return at, close, look
        at += len(value)
    return None
