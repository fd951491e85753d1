"""Condition of a hook: a permission rule that selects the calls it is run for.

It avoids starting a program for calls of no interest. An unreadable condition applies to every call.
"""

from functools import lru_cache

from agent_cli.policy.call_patterns import CallPattern, may_match, parse_call
from agent_cli.policy.rules.foreign_rules import rule_of
from agent_cli.policy.rules.rule import RuleError

from .call_names import NamedCall, ToolCallFacts
from .definition import CALL_EVENTS, Dialect, Hook


def holds(hook: Hook, call: ToolCallFacts, named: NamedCall) -> bool:
    """Return True if a hook applies to a call. A command that cannot be parsed may match anything."""
    if not hook.is_for_command(named.input.get("command", "")):
        return False
    if not hook.condition:
        return True
    pattern = _parsed(hook.condition, hook.dialect)
    if pattern is None or pattern.tool in named.names:
        return True
    return may_match(pattern, call.tool, call.actions, call.folder)


def problem(hook: Hook) -> str:
    """Return the problem with the condition of a hook; empty if there is none."""
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
        return parse_call(text if dialect == "native" else rule_of(text), "hooks")
    except RuleError:
        return None
