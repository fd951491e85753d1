"""Some 200 tools of thirteen servers in the manner of real ones, and questions as a model would put them.

`questions_held_out.tsv` was not looked at while the search was adjusted.
"""

from functools import cache
from pathlib import Path

from agent_cli.mcp.types.offer import ToolDefinition

_HERE = Path(__file__).parent


@cache
def servers() -> dict[str, tuple[ToolDefinition, ...]]:
    """Return the tools of each server."""
    found: dict[str, list[ToolDefinition]] = {}
    for server, name, description, parameters in _rows("tools.tsv"):
        properties = {each: {"type": "string"} for each in parameters.split(",") if each}
        schema = {"type": "object", "properties": properties}
        found.setdefault(server, []).append(ToolDefinition(name, description=description, input_schema=schema))
    return {server: tuple(tools) for server, tools in found.items()}


def questions(file: str) -> list[tuple[str, str]]:
    """Return pairs of `server/tool` and the question that it answers."""
    return [(target, question) for target, question in _rows(file)]


def _rows(file: str) -> list[list[str]]:
    return [line.split("\t") for line in (_HERE / file).read_text(encoding="utf-8").splitlines()]
