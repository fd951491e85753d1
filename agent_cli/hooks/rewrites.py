"""Show the changes that hooks make to a call as a diff, for display and for the record."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agent_cli.workspace.editing.unified_diff import unified_diff


def rewrite_diff(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> str:
    """Return the unified diff of a call's arguments, one value per line, texts split into their lines. `name`
    identifies what was changed."""
    return unified_diff(_text(before), _text(after), name).text.rstrip("\n")


def _text(arguments: Mapping[str, Any]) -> str:
    return "".join(f"{line}\n" for key, value in arguments.items() for line in _lines(key, value))


def _lines(name: str, value: Any) -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():
                yield from _lines(f"{name}.{key}", inner)
        case list() if value:
            for at, inner in enumerate(value, 1):
                yield from _lines(f"{name} {at}", inner)
        case str() if "\n" in value:
            yield f"{name}:"
            yield from (f"  {line}" for line in value.split("\n"))
        case str():
            yield f"{name}: {value}"
        case _:
            yield f"{name}: {msgspec.json.encode(value).decode()}"
