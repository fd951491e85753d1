"""Patterns of secrets: private keys, values identified by the text before them, and possible starts of the tokens
in `token_shapes`.

Separate from the detection code, so that a new kind of value is one row here. Every pattern stays on one line and
within one run of characters without a delimiter (see `DELIMITERS`), so that a stream can decide about a token as
soon as the delimiter after it arrives. Private key blocks are the only exception.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from agent_cli.protocol.lazy_regex import lazy_regex

from .token_shapes import LONGEST, LONGEST_JUDGED, NO_VALUE, SHAPES, is_token, looks_random

DELIMITERS = " \t\r\n\f\v\"'`<>{}()[],;|\\"
"""Characters that end a token."""


def _is_credential(text: str) -> bool:
    """Return True if the text after the scheme in a header is a credential, not a word or placeholder."""
    mixed = any(c.isdigit() for c in text) or (any(c.isupper() for c in text) and any(c.islower() for c in text))
    return mixed and is_token(text) and not NO_VALUE.match(text)


def _is_aws_secret(text: str) -> bool:
    return len(text) == 40 and is_token(text) and all(c.isalnum() or c in "/+" for c in text)


KEY_BEGINS = "-----BEGIN"
_BEGIN = r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_END = r"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_PREFIX = r"[^\n]{0,120}?"  # line numbers, file names, diff markers
_TRAIL = r"[ \t\r\"',+\\n]{0,8}"  # of a string in code
_LINE = rf"\n{_PREFIX}[A-Za-z0-9+/=]{{40,}}+{_TRAIL}(?=\n|\Z)"
_ASIDE = (
    rf"\n{_PREFIX}(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash): [^\n]{{0,200}}(?=\n)"
    r"|\n[ \t\r\d:|+>-]{0,24}(?=\n)"
)
KEY_BEGIN = lazy_regex(_BEGIN)
KEY_BLOCK = lazy_regex(
    rf"{_BEGIN}(?:(?:\\[nr]|[A-Za-z0-9+/= ])*{_END}|(?:\\[nr]|[A-Za-z0-9+/=]){{24,}}"
    rf"|{_TRAIL}(?:{_ASIDE}){{0,4}}{_LINE}(?:{_LINE}|{_ASIDE})*(?:(?:\n[^\n]{{0,200}}){{0,2}}?\n{_PREFIX}{_END})?"
    rf"|{_TRAIL}(?:\n[^\n]{{0,200}}){{1,3}}?\n{_PREFIX}{_END})"
)
"""A private key on one or several lines; if its end is missing, as far as its lines look like a key."""
KEY_END = lazy_regex(rf"{_END}\Z")
LINES_BEHIND_KEY = 4
"""Number of complete lines after a block without an end, after which it cannot grow."""
LINES_OF_NO_KEY = 8
"""Number of complete lines after a header without a body, after which it is not a key."""


def begin_of_token(text: str, at: int) -> int:
    """Return the position, from `at` on, at which a token may start in an incomplete text: a complete prefix, or
    part of one at the very end; -1 if none."""
    candidates, begins = _begins()
    while (found := candidates.search(text, at)) is not None:
        if begins[found[0]].match(text, found.start()):
            return found.start()
        at = found.end()
    return -1


@cache
def _begins() -> tuple[re.Pattern[str], dict[str, re.Pattern[str]]]:
    """Return a pattern for the first two characters of a token, and for each first character a pattern of all
    prefixes. Compiling all of them takes 14 ms, and most texts need few."""
    edge = r"(?:(?<![A-Za-z0-9_][\s\S])|(?<=[0-9\[][mK][\s\S])|(?<=\\[nrt][\s\S]))"
    at_edge: dict[str, list[str]] = {letter: [] for letter in "MNO"}
    free: dict[str, list[str]] = {}
    for shape in SHAPES:
        for word in shape.starts:
            (free if shape.inside else at_edge).setdefault(word[0], []).append(word[1:])
    free.setdefault(KEY_BEGINS[0], []).append(KEY_BEGINS[1:])
    starts: dict[str, list[str]] = {
        digit: [rf"{digit}{edge}(?:\d{{0,9}}\Z|\d{{7,9}}:)"] for digit in _DIGITS
    }  # Telegram
    starts |= {letter: [rf"{letter}{edge}[A-Za-z0-9_-]{{0,27}}(?:\.|\Z)"] for letter in "MNO"}  # Discord
    candidates = [f"[{_DIGITS}MNO]{edge}"]
    for rests_of, where in ((at_edge, edge), (free, "")):
        for first, rests in rests_of.items():
            nexts = "".join(re.escape(rest[0]) for rest in dict.fromkeys(rests) if rest)
            if not nexts:
                continue
            starts.setdefault(first, []).append(
                f"{re.escape(first)}{where}(?:{'|'.join(map(_or_beginning, rests))})"
            )
            candidates.append(rf"{re.escape(first)}(?=[{nexts}]|\Z){where}")
    return lazy_regex("|".join(candidates)), {first: lazy_regex("|".join(each)) for first, each in starts.items()}


_DIGITS = "0123456789"


def _or_beginning(word: str) -> str:
    """Return a pattern for `word`, or for any prefix of it, including none, at the end of the text."""
    nested = ""
    for char in reversed(word[:-1]):
        nested = f"(?:{re.escape(char)}{nested})?"
    return rf"{re.escape(word)}|{nested}\Z"


class Context(NamedTuple):
    """A context that makes the value after it on a line a secret."""

    words: tuple[str, ...]
    """Lower-case words, one of which is in the context."""
    before: re.Pattern[str]
    """Matches from the word up to the value."""
    name: str
    """Name of the value; empty: the name it is assigned to."""
    judge: Callable[[str], bool]
    """Returns True if a value in this context is a secret."""


_QUOTES = r"(?:\\?[\"']\]?)?"
_VALUE = r"[^\s\"'`<>{}()\[\],;|\\]"
JUDGED = lazy_regex(rf"{_VALUE}{{8,{LONGEST_JUDGED}}}+")
"""The part of a value by which it is judged."""
VALUE = lazy_regex(rf"({_VALUE}{{8,{LONGEST}}}+)(?![(\[{{])")
_SEPARATOR = rf"{_QUOTES}[ \t]{{0,3}}(?::=|=>|[:=])[ \t]{{0,3}}\\?[\"'`]?"

_NAME = r"[A-Za-z_-]{5,12}[A-Za-z0-9_.-]{0,30}"

_WORDS = (
    "passw", "passphrase", "secret", "token", "api_key", "apikey", "api-key", "access_key", "accesskey",
    "access-key", "private_key", "privatekey", "private-key", "credential", "account_key", "accountkey",
)  # fmt: skip

ALWAYS = (
    Context(
        ("authorization",),
        lazy_regex(rf"authorization{_SEPARATOR}(?:bearer|basic|token|apikey)[ \t]{{1,3}}", re.I),
        "Authorization header",
        _is_credential,
    ),
    Context(("bearer",), lazy_regex(r"bearer[ \t]{1,3}", re.I), "Authorization header", looks_random),
    Context(("x-api-key",), lazy_regex(rf"x-api-key{_SEPARATOR}", re.I), "x-api-key header", looks_random),
    Context(
        ("secret_access_key", "secretaccesskey"),
        lazy_regex(rf"secret_?access_?key{_SEPARATOR}", re.I),
        "AWS secret key",
        _is_aws_secret,
    ),
    # As files of environment variables and shells write it; code hardly ever does.
    Context(_WORDS, lazy_regex(r"[A-Z_]{5,12}[A-Z0-9_]{0,30}=\\?[\"']?"), "", looks_random),
    # As JSON and YAML write it: in quotes after a colon. In code that is a literal, never a call or a name.
    Context(_WORDS, lazy_regex(rf"{_NAME}\\?[\"']?[ \t]{{0,3}}:[ \t]{{0,3}}\\?[\"']"), "", looks_random),
)
ASSIGNED = Context(_WORDS, lazy_regex(rf"{_NAME}{_SEPARATOR}"), "", looks_random)
CONTEXT_WORDS = tuple(dict.fromkeys(word for context in (*ALWAYS, ASSIGNED) for word in context.words))
NO_SECRET_NAME = lazy_regex(r"public|page|cursor|continuation|next[_-]?token", re.I)
"""Parts of names whose values are not secret: public keys, and tokens for the next page of a list."""
BEFORE_NAME = lazy_regex(r"(?:[A-Za-z0-9_.]|(?<=[A-Za-z0-9])-){0,40}\Z")
LONGEST_BEFORE = 40
AFTER_NAME = lazy_regex(r"[A-Za-z0-9_.-]*")
LONGEST_CONTEXT = 160
"""Maximum length of a context in characters, including its name."""
