"""Calling a tool as the engine does: by name, with JSON, its `seen` remembered."""

from typing import Any

import msgspec

from agent_cli.tools.kit.base import ToolContext, ToolError, ToolOutcome
from agent_cli.tools.registry import default_registry

REGISTRY = default_registry()


async def call(context: ToolContext, name: str, /, **arguments: Any) -> ToolOutcome:
    """Run one call to its end.

    Raises:
        ToolError: as the tool does.
    """
    tool, params = REGISTRY.parse(name, msgspec.json.encode(arguments).decode())
    tool.title(params)
    tool.actions(params, context)
    try:
        outcome = await tool.run(params, context)
    except ToolError as error:
        context.seen.update(error.seen)
        raise
    context.seen.update(outcome.seen)
    return outcome
