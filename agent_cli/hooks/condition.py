"""The condition of a hook: a permission rule that says which calls it is run for.

It saves starting a program for calls that it does not look at. What cannot be read holds for every call.
"""

import re
from functools import lru_cache

from agent_cli.policy.call_patterns import CallPattern, may_be, parse_call
from agent_cli.policy.rules.rule import RuleError

from .call_names import NamedCall, ToolCallFacts
from .definition import CALL_EVENTS, Dialect, Hook

_RULE = re.compile(r"([A-Za-z_]\w*)\((.*)\)", re.DOTALL)
_SERVER = re.compile(r"mcp__(.+?)(?:__(.*))?")
_KINDS = {
    "Bash": "shell", "Read": "read", "Grep": "read", "Glob": "read", "LS": "read", "Edit": "write",
    "MultiEdit": "write", "Write": "write", "NotebookEdit": "write", "WebFetch": "fetch",
}  # fmt: skip
"""Tools of Claude Code, and the kind of rule on what they do here."""


def holds(hook: Hook, call: ToolCallFacts, named: NamedCall) -> bool:
    """Return whether a hook is for a call. A command that cannot be read may be any."""
    if not hook.condition:
        return True
    pattern = _parsed(hook.condition, hook.dialect)
    if pattern is None or pattern.tool in named.names:
        return True
    return may_be(pattern, call.tool, call.actions, call.folder)


def problem(hook: Hook) -> str:
    """Return what is wrong with the condition of a hook; empty for nothing."""
    if not hook.condition:
        return ""
    if hook.event not in CALL_EVENTS:
        return f"`if` is for events about calls, so {hook.label} is never run at {hook.event}"
    if _parsed(hook.condition, hook.dialect) is None:
        return f"the condition {hook.condition!r} of {hook.label} cannot be read, so it is run for every call"
    return ""


@lru_cache(maxsize=256)
def _parsed(text: str, dialect: Dialect) -> CallPattern | None:
    try:
        return parse_call(text if dialect == "native" else _translated(text), "hooks")
    except RuleError:
        return None


def _translated(text: str) -> str:
    """Return a rule of Claude Code in our words."""
    text = text.strip()
    if server := _SERVER.fullmatch(text):
        return f"mcp({server[1]}/{server[2] or '*'})"
    found = _RULE.fullmatch(text)
    if found is None:
        return text
    kind, pattern = _KINDS.get(found[1], found[1]), found[2].strip()
    match kind:
        case "shell" if pattern.endswith(":*"):
            pattern = f"{pattern[:-2]} *"
        case "fetch":
            pattern = pattern.removeprefix("domain:")
        case "read" | "write":
            pattern = _path(pattern)
    return f"{kind}({pattern})"


def _path(pattern: str) -> str:
    """Return a pattern for paths: there `//` begins at the root of the machine, `/` at that of the project, and a
    name alone is meant in every folder."""
    if pattern.startswith("//"):
        return pattern[1:]
    if pattern.startswith("/"):
        return pattern[1:] or "**"
    return pattern if "/" in pattern or pattern.startswith("~") else f"**/{pattern}"
