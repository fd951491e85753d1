"""Differences between a tool's definition and the one the user approved."""

import msgspec

from agent_cli.protocol.sanitize import visible

from ..types.offer import ToolDefinition

_PARTS = {
    "title": "title",
    "description": "description",
    "input_schema": "parameters",
    "output_schema": "result schema",
    "annotations": "annotations",
}


def changed_parts(approved: ToolDefinition | None, now: ToolDefinition) -> str:
    """Return the changed parts of a definition, such as `description, parameters`; empty if none changed."""
    if approved is None:
        return "it is new since the server's tools were approved"
    if approved.digest == now.digest:
        return ""
    return ", ".join(word for part, word in _PARTS.items() if getattr(approved, part) != getattr(now, part))


def definition_diff(approved: ToolDefinition | None, now: ToolDefinition) -> str:
    """Return the change as a diff, with control and invisible characters escaped."""
    import difflib

    before = _lines(approved) if approved else []
    found = difflib.unified_diff(before, _lines(now), "approved", "now", n=1, lineterm="")
    return "\n".join(line for line in found if not line.startswith(("---", "+++", "@@")))


def _lines(definition: ToolDefinition) -> list[str]:
    """Return a definition as text, one line per part and per line of its description."""
    lines = [f"name: {definition.name}", *(f"title: {definition.title}",) * bool(definition.title)]
    lines += [f"description: {line}" for line in definition.description.split("\n")]
    for part in ("input_schema", "output_schema", "annotations"):
        if value := getattr(definition, part):
            text = msgspec.json.format(msgspec.json.encode(value, order="sorted")).decode()
            lines += [f"{_PARTS[part]}: {line}" for line in text.split("\n")]
    return [visible(line).replace("\n", " ") for line in lines]
