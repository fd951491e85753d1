"""The condition of a hook: a permission rule that says which calls it is run for.

It saves starting a program for calls that it does not look at. What cannot be read holds for every call.
"""

from functools import lru_cache

from agent_cli.policy.call_patterns import CallPattern, may_be, parse_call
from agent_cli.policy.rules.foreign_rules import rule_of
from agent_cli.policy.rules.rule import RuleError

from .call_names import NamedCall, ToolCallFacts
from .definition import CALL_EVENTS, Dialect, Hook


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
        return parse_call(text if dialect == "native" else rule_of(text), "hooks")
    except RuleError:
        return None
