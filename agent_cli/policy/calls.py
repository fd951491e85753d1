"""Patterns for calls of tools, as rules about the order of calls use them: a tool's name, or what a call does in
the form of a permission rule."""

import re
from typing import TYPE_CHECKING

import msgspec

from ..protocol.actions import Action, CallExternal, Fetch, ReadPath, RunCommand, WritePath
from .rules import Rule, RuleError, matches_path, matches_words, parse_rule

if TYPE_CHECKING:
    from .shell_syntax import SimpleCommand

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_BARE_KINDS = frozenset({"shell", "write", "read", "fetch", "mcp"})
_MAX_DEPTH = 4


class CallPattern(msgspec.Struct, frozen=True):
    """Which calls are meant: those of a tool by its name, or, with a `rule`, those that do what it covers."""

    text: str
    tool: str = ""
    rule: Rule | None = None

    def __str__(self) -> str:
        return self.text


def parse_call(text: str, place: str) -> CallPattern:
    """A pattern from its text.

    Raises:
        RuleError: neither a name nor `NAME(PATTERN)`.
    """
    text = text.strip()
    if _NAME.fullmatch(text) and text not in _BARE_KINDS:
        return CallPattern(text, tool=text)
    try:
        return CallPattern(text, rule=parse_rule(text, "deny", place))
    except RuleError as error:
        raise RuleError(f"{error}; or the name of a tool") from None


def may_be(pattern: CallPattern, tool: str, actions: tuple[Action, ...], root: str) -> bool:
    """Whether a call may be one of those meant: for rules that forbid. A command beyond the reader may be any."""
    if pattern.rule is None:
        return pattern.tool == tool
    return any(_covers(pattern.rule, action, root) for action in actions)


def surely_is(pattern: CallPattern, tool: str, actions: tuple[Action, ...], root: str) -> bool:
    """Whether a call is one of those meant beyond doubt: for rules that require. Of a command line all parts must
    have run when it succeeds, so only `&&` may join them."""
    if pattern.rule is None or pattern.rule.kind != "shell":
        return may_be(pattern, tool, actions, root)
    commands = [action.command for action in actions if isinstance(action, RunCommand)]
    return any(_surely_runs(pattern.rule, line) for line in commands)


def _covers(rule: Rule, action: Action, root: str) -> bool:
    match action:
        case RunCommand(command=command):
            return rule.kind == "shell" and _may_run(rule, command, 0)
        case WritePath(path=path):
            return rule.kind == "write" and matches_path(rule, path, root)
        case ReadPath(path=path):
            return rule.kind == "read" and matches_path(rule, path, root)
        case Fetch(host=host):
            return rule.kind == "fetch" and matches_words(rule, host)
        case CallExternal(server=server, tool=tool):
            return rule.kind == "mcp" and matches_words(rule, f"{server}/{tool}")
        case _:
            return False


def _may_run(rule: Rule, line: str, depth: int) -> bool:
    from .shell_syntax import Unsure, parse
    from .unwrap import layers

    if depth > _MAX_DEPTH:
        return True
    try:
        for part in parse(line):
            inside = layers(part)
            if any(_matches(rule, command) for command in inside.commands):
                return True
            if any(_may_run(rule, script, depth + 1) for script in inside.scripts):
                return True
    except Unsure:
        return True
    return False


def _surely_runs(rule: Rule, line: str) -> bool:
    from .shell_syntax import Unsure, parse

    try:
        parts = parse(line)
    except Unsure:
        return False
    joined = all(part.then in ("&&", "") for part in parts)
    return joined and any(_matches(rule, part) and not part.assigns for part in parts)


def _matches(rule: Rule, command: "SimpleCommand") -> bool:
    from .rulings import texts_of

    return any(matches_words(rule, text) for text in texts_of(command))
