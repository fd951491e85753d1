"""What a sub-agent has of its parent's tools: never more than the parent has itself."""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from agent_cli.protocol.agent_types import AgentType
from agent_cli.tools.kit.base import Tool
from agent_cli.tools.registry import Registry

_NOT_FOR_SUBAGENTS = frozenset({"memory", "finish"})
"""The memory is the user's and the parent's; a sub-agent ends by its answer."""


def narrowed(registry: Registry, kind: AgentType, without: Collection[str], more: Iterable[Tool]) -> Registry:
    """Return the tools of the parent that a sub-agent has, in their order, and `more` of its own behind them.

    Args:
        registry: the tools of the parent.
        kind: what the sub-agent is.
        without: names of tools that it does not have.
        more: tools that are made for it.
    """
    offered = set(registry.names)
    kept = [tool for tool in registry.tools if tool.name not in _NOT_FOR_SUBAGENTS and tool.name not in without]

    def other(name: str) -> Tool | None:
        return registry.get(name) if name not in offered and is_allowed(kind, name) else None

    return Registry((tool for tool in (*kept, *more) if is_allowed(kind, tool.name)), other)


def is_allowed(kind: AgentType, name: str) -> bool:
    """Return whether a type of sub-agent may use a tool."""
    return (kind.tools is None or _fits(name, kind.tools)) and not _fits(name, kind.without_tools)


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
