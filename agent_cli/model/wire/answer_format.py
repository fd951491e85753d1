"""Answer schemas in the forms that providers can enforce.

Sources: OpenAI, "Structured model outputs"; Anthropic, "Structured outputs"; Ollama, "Structured outputs".
"""

from typing import Any

import msgspec

from ..types.base import LearnedLimits, ModelRequest
from ..types.provider_table import Quirks
from .unsupported_parts import ANSWER_SCHEMA

_KNOWN = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "description", "title", "enum", "const",
        "anyOf", "$ref", "$defs",
    }
)  # fmt: skip
"""Keywords supported by every provider that accepts schemas."""


class AnswerFormat(msgspec.Struct, frozen=True):
    """An answer schema and how strictly it can be enforced."""

    schema: dict[str, Any]
    closed: dict[str, Any] | None = None
    """The schema with objects limited to the listed properties; None if it uses keywords that not every provider
    supports. Whatever matches it matches the schema."""
    is_strict: bool = False
    """True if all properties of the closed form are required and typed, as OpenAI's strict mode demands."""

    def named(self) -> dict[str, Any]:
        """Return the form used by the OpenAI formats."""
        return {
            "name": "answer",
            "schema": self.closed if self.is_strict else self.schema,
            "strict": self.is_strict,
        }


def answer_format(request: ModelRequest, quirks: Quirks, learned: LearnedLimits) -> AnswerFormat | None:
    """Return the answer format of a request; None if it cannot be sent because the server refused it, or because
    it would prevent tool calls."""
    schema = request.answer_schema
    may_call = request.tools and request.may_call
    if schema is None or ANSWER_SCHEMA in learned.refused or (may_call and not quirks.schema_beside_tools):
        return None
    root = _with_inner_root(schema)
    if root.get("type") != "object":
        return None
    closed = _closed(root)
    return AnswerFormat(root, closed, closed is not None and _is_strict(closed))


def _with_inner_root(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with a root that is only a reference replaced by its target."""
    parts, name = schema.get("$defs", {}), str(schema.get("$ref", "")).removeprefix("#/$defs/")
    return {**parts[name], "$defs": parts} if schema.keys() == {"$ref", "$defs"} and name in parts else schema


def _closed(schema: Any) -> Any:
    """Return the closed form of a schema; None if there is none."""
    if not isinstance(schema, dict) or not schema.keys() <= _KNOWN:
        return None
    closed = dict(schema)
    values = [schema["const"]] if "const" in schema else schema.get("enum", ())
    if "type" not in schema and values and all(isinstance(each, str) for each in values):
        closed["type"] = "string"
    if schema.get("type") == "object":
        if "properties" not in schema or schema.get("additionalProperties", False) is not False:
            return None
        closed["additionalProperties"] = False
    for key in ("properties", "$defs"):
        if key in schema:
            closed[key] = {name: _closed(part) for name, part in schema[key].items()}
    if "items" in schema:
        closed["items"] = _closed(schema["items"])
    if "anyOf" in schema:
        closed["anyOf"] = [_closed(part) for part in schema["anyOf"]]
    return None if any(part is None for part in _parts(closed)) else closed


def _parts(schema: dict[str, Any]) -> list[Any]:
    """Return the direct subschemas."""
    named = [part for key in ("properties", "$defs") for part in schema.get(key, {}).values()]
    return [*named, *schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]


def _is_strict(schema: dict[str, Any]) -> bool:
    required = set(schema.get("required", ()))
    is_typed = bool({"type", "anyOf", "$ref"} & schema.keys())
    return is_typed and set(schema.get("properties", ())) <= required and all(map(_is_strict, _parts(schema)))
