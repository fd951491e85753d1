"""The interpretation of typed answers to questions, shared by both front ends.

A letter, a word or a number decides only if it is the whole answer; any other text is the user's own words. Pure:
texts in, meanings out.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from ..commands import registry

Name = Literal[
    "yes", "no", "always", "edit", "by hunk", "yes to all", "no to all", "accept edits", "risk",
    "session", "project", "user", "rule", "back",
    "take", "leave", "take the rest", "leave the rest",
]  # fmt: skip


class Choice(msgspec.Struct, frozen=True):
    """A possible answer."""

    name: Name
    key: str
    """The letter, as shown."""
    label: str
    number: str = ""
    words: frozenset[str] = frozenset()
    effect: str = ""
    """Effect of Enter when this answer is chosen."""


class Meaning(msgspec.Struct, frozen=True):
    """The meaning of a typed text: a choice, a choice that is not offered, a command, free text, or nothing."""

    kind: Literal["choice", "not offered", "command", "words", "nothing"]
    choice: Choice | None = None


def _choice(name: Name, key: str, label: str, number: str, words: str, effect: str) -> Choice:
    return Choice(name, key, label, number, frozenset(words.split()), effect)


CALL = (
    _choice("yes", "y", "Yes", "1", "yes ok okay", "runs it once"),
    _choice("always", "a", "Always allow {rule} …", "2", "always", "shows the rule and asks where to save it"),
    _choice("no", "n", "No, and say what to do instead", "3", "no", "refuses"),
    _choice("edit", "e", "edit", "4", "edit", "edits it first"),
    _choice("by hunk", "h", "hunk by hunk", "5", "hunk hunks", "reviews it hunk by hunk"),
    _choice("yes to all", "A", "yes to all {count}", "6", "all", "runs all {count} calls that are left"),
    _choice("no to all", "N", "no to all {count}", "7", "none", "refuses all {count} calls that are left"),
    _choice("accept edits", "Shift-Tab", "accept all edits", "8", "edits",
            "accepts it, and all edits from now on (mode auto-edit)"),
    _choice("risk", "?", "details", "", "risk details", "shows what it could do at worst"),
)  # fmt: skip
"""Answers to the question whether a call may run. A capital letter counts only if several calls are left."""
MAIN: tuple[Name, ...] = ("yes", "always", "no")
"""The answers that have their own row."""
SCOPE = (
    _choice("session", "s", "This session", "1", "session", "saves the rule for this session, and runs it"),
    _choice("project", "p", "This project", "2", "project", "saves the rule for this project, and runs it"),
    _choice("user", "u", "Everywhere", "3", "user everywhere", "saves the rule for all projects, and runs it"),
    _choice("rule", "e", "edit the rule", "4", "edit", "edits the rule"),
    _choice("back", "b", "back", "5", "back n no", "goes back"),
)
"""The scopes in which a rule can be saved."""
HUNK = (
    _choice("take", "y", "accept", "", "yes accept", "accepts this hunk"),
    _choice("leave", "n", "skip", "", "no skip", "skips this hunk"),
    _choice("take the rest", "a", "accept all", "", "all", "accepts this hunk and the rest"),
    _choice("leave the rest", "d", "skip rest", "", "none", "skips this hunk and the rest"),
    _choice("back", "b", "back", "", "back", "goes back"),
)
"""Decisions on a hunk of a change."""


OwnNames = Callable[[], Iterable[str]]
"""Returns the names of the user's own slash commands."""


def meaning(text: str, offered: Sequence[Choice], known: Sequence[Choice]) -> Meaning:
    """Return the meaning of a text, given the choices on offer and all `known` choices."""
    typed = text.strip()
    if not typed:
        return Meaning("nothing")
    if is_command_line(typed):
        return Meaning("command")
    if (choice := _named(typed, offered)) is not None:
        return Meaning("choice", choice)
    is_number = len(typed) == 1 and typed.isdecimal()
    if is_number or _named(typed, known) is not None or not any(each.isalnum() for each in typed):
        return Meaning("not offered")
    return Meaning("words")


def _named(typed: str, choices: Sequence[Choice]) -> Choice | None:
    """Return the choice with exactly this letter; else the one with this letter, word or number, ignoring case."""
    low = typed.lower()
    exact = (choice for choice in choices if typed == choice.key)
    other = (c for c in choices if low in (c.key, c.number) or low in c.words)
    return next(exact, None) or next(other, None)


ANYTIME = frozenset((
    "help", "mode", "model", "effort", "permissions", "more", "diff", "plan", "jobs", "status", "cost", "context",
    "agents", "memory", "sessions", "search", "tools", "mcp", "hooks", "plugins", "theme", "config",
))  # fmt: skip
"""Slash commands that run while a question is open: they only show something or change a setting."""


def runs_now(text: str) -> bool:
    """Return True if a line is a command that runs while a question is open."""
    text = text.strip()
    if text.startswith("!"):
        return bool(text.lstrip("!").strip())
    parsed = registry.parse(text)
    return parsed is not None and registry.ALIASES.get(parsed[0], parsed[0]) in ANYTIME


def is_command_line(text: str, own: OwnNames = tuple, *, any_name: bool = True) -> bool:
    """Return True if a line is a slash command or a shell command, which no question takes for an answer. With
    `any_name`, used at approvals, every name after a slash counts, known or not, and so does a note for the
    memory."""
    text = text.strip()
    if text.startswith("!") or (any_name and registry.is_note(text)):
        return True
    parsed = registry.parse(text)
    if parsed is None:
        return False
    return any_name or registry.is_built_in(parsed[0]) or parsed[0] in own()
