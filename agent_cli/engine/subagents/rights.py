"""The tools and rules of a sub-agent: never more than its parent has."""

from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from functools import partial

import msgspec

from agent_cli.policy.rules.rule import Rule, path_patterns
from agent_cli.protocol.agent_types import AgentType
from agent_cli.protocol.paths import is_inside
from agent_cli.tools.kit.base import LeadsToTools, Tool
from agent_cli.tools.registry import Registry

_NOT_FOR_SUBAGENTS = frozenset({"memory", "finish"})
"""The memory belongs to the user and the parent; a sub-agent ends with its answer."""


def narrowed(registry: Registry, kind: AgentType, without: Collection[str], more: Iterable[Tool]) -> Registry:
    """Return the parent's tools that a sub-agent gets, in their order, followed by `more`.

    Args:
        registry: the tools of the parent.
        kind: the type of the sub-agent.
        without: names of tools to exclude.
        more: tools created for the sub-agent.
    """
    offered = set(registry.names)
    kept = [tool for tool in registry.tools if tool.name not in _NOT_FOR_SUBAGENTS and tool.name not in without]

    def other(name: str) -> Tool | None:
        return registry.get(name) if name not in offered and is_allowed(kind, name) else None

    return Registry(filter(None, (_as_allowed(kind, tool) for tool in (*kept, *more))), other)


def _as_allowed(kind: AgentType, tool: Tool) -> Tool | None:
    """Return a tool as a type may use it; None if it may not. A type that names tools that are found through
    another one may use that one for these."""
    if not isinstance(tool, LeadsToTools):
        return tool if is_allowed(kind, tool.name) else None
    named = any(each.startswith(tool.leads_to) for each in kind.tools or ())
    if not is_allowed(kind, tool.name) and (not named or _fits(tool.name, kind.without_tools)):
        return None
    return tool.narrowed(partial(is_allowed, kind)) if kind.tools is not None or kind.without_tools else tool


def moved(rules: Iterable[Rule], top: str, worktree: str) -> Iterator[Rule]:
    """Yield the rules that ask or deny for absolute paths of a checkout, rewritten for its worktree."""
    for rule in rules:
        if rule.effect != "allow" and rule.kind in ("read", "write") and rule.pattern.startswith(("/", "~")):
            for pattern in path_patterns(rule, top):
                if is_inside(pattern, [top]):
                    yield msgspec.structs.replace(rule, pattern=worktree + pattern[len(top) :])


def is_allowed(kind: AgentType, name: str) -> bool:
    """Return True if a type of sub-agent may use a tool."""
    return (kind.tools is None or _fits(name, kind.tools)) and not _fits(name, kind.without_tools)


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
