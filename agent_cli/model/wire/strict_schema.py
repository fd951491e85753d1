"""Strict form of tool parameters, which a provider can enforce: every property is required, and optional ones may
be null instead. The registry treats a null as omitted.

Source: OpenAI, "Structured model outputs", the subset of JSON Schema for strict functions.
"""

from typing import Any

_KNOWN = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "description", "enum", "minimum",
        "maximum", "minItems", "maxItems",
    }
)  # fmt: skip


def strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the strict form of an object schema; None if it uses keywords that such a provider may not support,
    or allows unlisted properties."""
    if not schema.keys() <= _KNOWN:
        return None
    if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        items = strict_schema(schema["items"])
        return None if items is None else {**schema, "items": items}
    if schema.get("type") != "object":
        return schema if isinstance(schema.get("type"), str) else None
    if schema.get("additionalProperties") is not False:
        return None
    required = frozenset(schema.get("required", ()))
    properties: dict[str, Any] = {}
    for name, part in schema.get("properties", {}).items():
        strict = strict_schema(part)
        if strict is None:
            return None
        properties[name] = strict if name in required else _or_null(strict)
    return {**schema, "properties": properties, "required": list(properties)}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    nullable = {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        nullable["enum"] = [*schema["enum"], None]
    return nullable
