"""What a typed answer to a question means, the same in both front ends.

A letter, a word or a number decides only when it is all there is in the answer; any other text is the user's own
words. Pure: texts in, meanings out.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from ..commands import registry

Name = Literal[
    "yes", "no", "always", "edit", "by hunk", "yes to all", "no to all", "risk",
    "session", "project", "user", "rule", "back",
    "take", "leave", "take the rest", "leave the rest",
]  # fmt: skip


class Choice(msgspec.Struct, frozen=True):
    """One way to answer."""

    name: Name
    key: str
    """The letter, as it is shown."""
    label: str
    number: str = ""
    words: frozenset[str] = frozenset()
    effect: str = ""
    """What Enter does then."""


class Meaning(msgspec.Struct, frozen=True):
    """What a text says: one of the choices, one that is not on offer, a command, words, or nothing."""

    kind: Literal["choice", "not offered", "command", "words", "nothing"]
    choice: Choice | None = None


def _choice(name: Name, key: str, label: str, number: str, words: str, effect: str) -> Choice:
    return Choice(name, key, label, number, frozenset(words.split()), effect)


CALL = (
    _choice("yes", "y", "once", "1", "yes ok okay", "runs it once"),
    _choice("no", "n", "no", "2", "no", "refuses"),
    _choice("always", "a", "always", "3", "always", "shows the rule that would be saved"),
    _choice("edit", "e", "edit", "4", "edit", "edits it first"),
    _choice("by hunk", "h", "by hunk", "5", "hunk hunks", "goes through it hunk by hunk"),
    _choice("yes to all", "A", "yes to all", "6", "all", "runs all {count} calls that are left"),
    _choice("no to all", "N", "no to all", "7", "none", "refuses all {count} calls that are left"),
    _choice("risk", "?", "risk", "", "risk", "shows what it could do at worst"),
)
"""Answers to the question whether a call may run. A capital letter counts only where several calls are left."""
SCOPE = (
    _choice("session", "s", "this session", "1", "session", "saves the rule for this session, and runs it"),
    _choice("project", "p", "this project", "2", "project", "saves the rule for this project, and runs it"),
    _choice("user", "u", "everywhere", "3", "user everywhere", "saves the rule everywhere, and runs it"),
    _choice("rule", "e", "edit the rule", "4", "edit", "edits the rule"),
    _choice("back", "b", "back", "5", "back n no", "goes back"),
)
"""Where a rule is saved."""
HUNK = (
    _choice("take", "y", "take it", "", "yes", "takes this hunk"),
    _choice("leave", "n", "leave it", "", "no", "leaves this hunk out"),
    _choice("take the rest", "a", "this and the rest", "", "all", "takes this hunk and the rest"),
    _choice("leave the rest", "d", "none of the rest", "", "none", "leaves this hunk and the rest out"),
    _choice("back", "b", "back", "", "back", "goes back"),
)
"""What becomes of one hunk of a change."""


OwnNames = Callable[[], Iterable[str]]
"""Gives the names of the user's own slash commands."""


def meaning(text: str, offered: Sequence[Choice], known: Sequence[Choice], own: OwnNames = tuple) -> Meaning:
    """Return what a text says where some of the `known` choices are offered."""
    typed = text.strip()
    if not typed:
        return Meaning("nothing")
    if is_for_later(typed, own):
        return Meaning("command")
    if (choice := _named(typed, offered)) is not None:
        return Meaning("choice", choice)
    is_number = len(typed) == 1 and typed.isdecimal()
    if is_number or _named(typed, known) is not None or not any(each.isalnum() for each in typed):
        return Meaning("not offered")
    return Meaning("words")


def _named(typed: str, choices: Sequence[Choice]) -> Choice | None:
    """Return the choice with this letter as it is, else with this letter, word or number whatever the case."""
    low = typed.lower()
    exact = (choice for choice in choices if typed == choice.key)
    other = (c for c in choices if low in (c.key, c.number) or low in c.words)
    return next(exact, None) or next(other, None)


def is_for_later(text: str, own: OwnNames = tuple, *, alone: bool = True) -> bool:
    """Return whether a line is a command, of the program or of the user's shell, which no question takes for an
    answer. `alone`: a name behind a slash is one whether it is known or not, when nothing follows it."""
    text = text.strip()
    if text.startswith("!"):
        return bool(text[1:].strip())
    parsed = registry.parse(text)
    if parsed is None:
        return False
    return registry.is_built_in(parsed[0]) or (alone and not parsed[1]) or parsed[0] in own()
