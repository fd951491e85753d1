"""Patterns for tool calls, used by rules about the order of calls: a tool's name, or the effect of a call in the
form of a permission rule."""

from typing import TYPE_CHECKING, Literal

import msgspec

from agent_cli.protocol.actions import Action, CallExternal, Fetch, ReadPath, RunCommand, SendInput, WritePath
from agent_cli.protocol.lazy_regex import lazy_regex

from .rules.rule import Rule, RuleError, matches_path, matches_words, parse_rule

if TYPE_CHECKING:
    from .shell.parser import SimpleCommand

_NAME = lazy_regex(r"[A-Za-z_][\w.-]*")
_BARE_KINDS = frozenset({"shell", "write", "read", "fetch", "mcp"})
_ALTERING = frozenset(
    "cd pushd popd export declare typeset readonly local unset alias set shopt enable hash source . eval"
    " exec exit return logout trap read readarray mapfile getopts let".split()
)
"""Shell builtins that change where, how or whether the next commands of a line run, or which exit code it has."""


class CallPattern(msgspec.Struct, frozen=True):
    """Pattern of tool calls: those of a named tool or, with a `rule`, those whose action the rule covers."""

    text: str
    tool: str = ""
    rule: Rule | None = None

    def __str__(self) -> str:
        return self.text


def parse_call(text: str, place: str) -> CallPattern:
    """Parse a pattern.

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


def may_match(pattern: CallPattern, tool: str, actions: tuple[Action, ...], root: str) -> bool:
    """Return True if a call may match, for rules that forbid. A command line that cannot be parsed may match
    anything."""
    return count(pattern, tool, actions, root) > 0


def count(pattern: CallPattern, tool: str, actions: tuple[Action, ...], root: str) -> int:
    """Return how many matches a call may contain: every simple command of a command line counts."""
    if pattern.rule is None:
        return int(pattern.tool == tool)
    return sum(_covers(pattern.rule, action, root) for action in actions)


def matches_surely(
    pattern: CallPattern,
    tool: str,
    actions: tuple[Action, ...],
    root: str,
    which: Literal["any", "all", "last"] = "any",
) -> bool:
    """Return True if a call matches beyond doubt, for rules that require. All parts of a command line must have
    run when it succeeds, so only `&&` may join them. It must run where the rule expects it: in the root, with
    nothing altered that decides which program a name runs. `which` of the parts must match; with `all`, the line
    does nothing else."""
    rule = pattern.rule
    if rule is None or rule.kind != "shell":
        return may_match(pattern, tool, actions, root)
    lines = [
        _joined(each.command) for each in actions if isinstance(each, RunCommand) and _is_as_started(each, root)
    ]
    match which:
        case "any":
            return any(_is_plain(rule, part) for parts in lines for part in parts)
        case "all":
            return any(parts and all(_is_all(rule, part) for part in parts) for parts in lines)
        case "last":
            return any(_is_plain(rule, part) for parts in lines for part in parts[-1:])


def _is_all(rule: Rule, part: "SimpleCommand") -> bool:
    return _is_plain(rule, part) and set(part.writes) <= {"/dev/null"}


def _is_as_started(action: RunCommand, root: str) -> bool:
    from .rules.dangers import may_change_what_runs

    return action.cwd == root and not action.functions and not any(map(may_change_what_runs, action.altered))


def _covers(rule: Rule, action: Action, root: str) -> int:
    match action:
        case RunCommand(command=command):
            return _may_run(rule, command, 0) if rule.kind == "shell" else 0
        case SendInput(text=text):
            return _may_type(rule, text) if rule.kind == "shell" else 0
        case WritePath(path=path):
            return rule.kind == "write" and matches_path(rule, path, root)
        case ReadPath(path=path):
            return rule.kind == "read" and matches_path(rule, path, root)
        case Fetch(host=host):
            return rule.kind == "fetch" and matches_words(rule, host)
        case CallExternal(server=server, tool=tool):
            return rule.kind == "mcp" and matches_words(rule, f"{server}/{tool}")
        case _:
            return 0


def _may_type(rule: Rule, text: str) -> int:
    """Return how many lines of input for a running command a rule covers."""
    from .shell.rule_matching import lines_of

    return sum(matches_words(rule, line) for line in lines_of(text))


def _may_run(rule: Rule, line: str, depth: int) -> int:
    """Return how many simple commands of a line a rule may cover; a line that cannot be parsed counts as one."""
    from .shell.parser import Unsure, parse
    from .shell.rule_matching import all_texts_of
    from .shell.wrappers import MAX_SHELLS, unwrap

    if depth > MAX_SHELLS:
        return 1
    found = 0
    try:
        for part in parse(line):
            inside = unwrap(part)
            found += any(
                matches_words(rule, text) for command in inside.commands for text in all_texts_of(command)
            )
            found += sum(_may_run(rule, script, depth + 1) for script in inside.scripts)
    except Unsure:
        return max(found, 1)
    return found


def _joined(line: str) -> "list[SimpleCommand]":
    """Return the parts of a line that have all run when it succeeds; empty if that is uncertain, or if one of them
    changes where or how the next ones run."""
    from .shell.parser import Unsure, parse

    try:
        parts = list(parse(line))
        is_certain = all(
            part.operator in ("&&", "") and not part.block and not part.negated and not _alters(part)
            for part in parts
        )
    except Unsure:
        return []
    return parts if is_certain else []


def _alters(part: "SimpleCommand") -> bool:
    """Return True if a part may change where, how or whether the next ones run.

    Raises:
        Unsure: it has an option that is not known.
    """
    from .shell.parser import may_set_by_printf
    from .shell.wrappers import program, unwrap

    names = {program(command) for command in unwrap(part).commands}
    return not part.words or not _ALTERING.isdisjoint(names) or may_set_by_printf(part)


def _is_plain(rule: Rule, part: "SimpleCommand") -> bool:
    from .shell.rule_matching import texts_of

    return not part.assigns and any(matches_words(rule, text) for text in texts_of(part))
