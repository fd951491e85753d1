"""What a sub-agent may have of its parent's tools and modes: never more than the parent has itself."""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from agent_cli.protocol.actions import Mode
from agent_cli.protocol.agent_types import AgentType
from agent_cli.tools.kit.base import Tool
from agent_cli.tools.registry import Registry

_WIDTH: dict[Mode, int] = {"plan": 0, "ask": 1, "auto-edit": 2, "yolo": 3}
_NOT_FOR_SUBAGENTS = frozenset({"memory", "finish"})
"""The memory is the user's and the parent's; a sub-agent ends by its answer."""


def narrower(first: Mode, second: Mode | None) -> Mode:
    """Return the mode that allows less without asking."""
    return first if second is None or _WIDTH[first] <= _WIDTH[second] else second


def tools_for(kind: AgentType, registry: Registry, without: Collection[str]) -> list[Tool]:
    """Return the tools of the parent that a sub-agent has, in their order."""
    kept = (tool for tool in registry.tools if tool.name not in _NOT_FOR_SUBAGENTS and tool.name not in without)
    return [tool for tool in kept if is_allowed(kind, tool.name)]


def is_allowed(kind: AgentType, name: str) -> bool:
    """Return whether a type of sub-agent may use a tool."""
    return (kind.tools is None or _fits(name, kind.tools)) and not _fits(name, kind.without_tools)


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
