"""Convert other agents' sub-agent permissions to a mode and permission rules of ours. The result never grants a
right: the mode is the widest it may run in, and the rules ask or deny.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from agent_cli.policy.rules.foreign_rules import rule_of
from agent_cli.policy.rules.rule import Effect, RuleError, parse_rule
from agent_cli.protocol.actions import Mode

from .tool_names import EDIT, own_names

_MODES: Mapping[str, Mode] = {
    **dict.fromkeys(("plan", "readonly"), "plan"),
    **dict.fromkeys(("ask", "default", "manual", "untrusted", "dontask"), "ask"),
    **dict.fromkeys(("autoedit", "acceptedits", "auto", "workspacewrite"), "auto-edit"),
    **dict.fromkeys(("yolo", "bypasspermissions", "dangerfullaccess"), "yolo"),
}
"""Modes by permissionMode of Claude Code, sandbox_mode and approval_policy of Codex, and our own names, in lower
case without `-` and `_`."""
_WIDTH: tuple[Mode, ...] = ("plan", "ask", "auto-edit", "yolo")
_WRITES = (*EDIT, "write_file")
_KINDS: Mapping[str, str] = {"bash": "shell", "read": "read", "edit": "write", "webfetch": "fetch"}
"""Keys of `permission` that have patterns, and the corresponding kind of rule."""
_ASKED: Mapping[str, str] = {**_KINDS, "write": "write", "grep": "read", "glob": "read", "list": "read"}


class Narrowing(msgspec.Struct, frozen=True):
    """Restrictions of a definition."""

    only: tuple[str, ...] | None = None
    """The only tools allowed; None for all."""
    without: tuple[str, ...] = ()
    """Tools to remove."""
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def mode_of(text: str) -> Mode | None:
    """Return our mode for another agent's name of one; None if unknown."""
    return _MODES.get(text.replace("-", "").replace("_", "").lower())


def narrowest(modes: Iterable[Mode]) -> Mode | None:
    """Return the narrowest mode; None if there is none."""
    return min(modes, key=_WIDTH.index, default=None)


def denied_calls(patterns: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return deny rules for calls such as `Bash(rm *)`, and the tools whose patterns have no equivalent rule:
    these must be removed as a whole, since the author meant to restrict them."""
    rules, tools = [], []
    for written in patterns:
        if (rule := _rule(rule_of(written), "deny")) is not None:
            rules.append(rule)
        else:
            tools.append(written.partition("(")[0].strip())
    return tuple(rules), tuple(tools)


def opencode_permission(value: Any) -> Narrowing:
    """Convert OpenCode's `permission`: an action for everything, or for each tool an action or actions by
    pattern."""
    if isinstance(value, str):
        value = {"*": value}
    if value is None:
        return Narrowing()
    if not isinstance(value, Mapping):
        return Narrowing(only=(), notes=("`permission` is not a mapping, so it has no tools",))
    only = None
    if value.get("*") == "deny":
        given = [str(key) for key, action in value.items() if action != "deny"]
        only = tuple(dict.fromkeys(name for key in given for name in _tools(key)))
        value = {key: action for key, action in value.items() if key != "*"}
    parts = [part for key, action in value.items() for part in _permission(str(key), action)]

    def of(kind: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for each, text in parts if each == kind))

    return Narrowing(only, of("without"), of("ask"), of("deny"), of("note"))


_Part = tuple[Literal["without", "ask", "deny", "note"], str]


def _permission(key: str, action: Any) -> Iterator[_Part]:
    if isinstance(action, Mapping):
        yield from _by_pattern(key, {str(pattern): str(each).lower() for pattern, each in action.items()})
        return
    match str(action).lower():
        case "allow":
            return
        case "deny":
            yield from (("without", name) for name in _tools(key))
        case "ask" if key == "*":
            yield from (("ask", kind) for kind in ("shell", "write", "fetch", "mcp"))
        case "ask" if key in _ASKED:
            yield "ask", _ASKED[key]
        case "ask":
            yield "note", f"without effect: permission.{key}: ask"
        case _:
            yield from (("without", name) for name in _tools(key))
            yield "note", f"permission.{key}: {action!r} is no action, so it is denied"


def _tools(key: str) -> tuple[str, ...]:
    return _WRITES if key == "edit" else own_names(key)


def _by_pattern(key: str, actions: Mapping[str, str]) -> Iterator[_Part]:
    """Yield the restrictions of a mapping from patterns to actions. In OpenCode the last matching pattern wins;
    here a deny rule, then an ask rule. A denial with exceptions becomes a full denial."""
    if actions.get("*", "allow") not in ("allow", "ask"):
        yield from (("without", name) for name in _tools(key))
        if len(actions) > 1:
            yield "note", f"permission.{key}: the exceptions to `*: deny` have no effect"
        return
    kind = _KINDS.get(key)
    for pattern, action in actions.items():
        if action == "allow":
            continue
        effect: Effect = "ask" if action == "ask" else "deny"
        rule = _rule(f"{kind}({pattern})" if pattern != "*" else str(kind), effect) if kind else None
        if rule is not None:
            yield ("ask", rule) if effect == "ask" else ("deny", rule)
        elif effect == "ask":
            yield "note", f"without effect: permission.{key}: {pattern}"
        else:
            yield from (("without", name) for name in _tools(key))
            yield "note", f"permission.{key}: {pattern} is not a rule here, so all of it is denied"


def _rule(text: str, effect: Effect) -> str | None:
    try:
        return parse_rule(text, effect, "").text
    except RuleError:
        return None
