"""What providers refuse of the schema of an answer, in their words where the client reads them."""

import re
from typing import Any

Json = dict[str, Any]
_NAMED = {"name", "schema", "strict"}
_OF_OBJECTS = "must be a JSON Schema of 'type: \"object\"'"
_NOT_HELD = {"minimum", "maximum", "minLength", "maxLength", "pattern", "multipleOf", "maxItems", "allOf", "oneOf"}


def openai_complaint(named: Json, where: str) -> str:
    """Return why OpenAI refuses a named schema at this place; empty when it takes it."""
    if named.keys() != _NAMED or not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", named["name"]):
        return f"Unknown parameter: '{where}'."
    if named["schema"].get("type") != "object":
        return f"Invalid schema for {where} '{named['name']}': schema {_OF_OBJECTS}."
    why = not_strict(named["schema"]) if named["strict"] else ""
    return f"Invalid schema for {where} '{named['name']}': In context=(), {why}" if why else ""


def anthropic_complaint(form: Json) -> str:
    """Return why Anthropic refuses a format; empty when it takes it."""
    if form.keys() != {"type", "schema"} or form["type"] != "json_schema":
        return "output_config.format: Extra inputs are not permitted"
    return _not_closed(form["schema"])


def _not_closed(schema: Json) -> str:
    if words := _NOT_HELD & schema.keys():
        return f"output_config.format.schema: For '{schema.get('type')}' type, property '{min(words)}' is not supported"
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        return "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"
    parts = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    return next(filter(None, map(_not_closed, [*parts, *([schema["items"]] if "items" in schema else ())])), "")


def not_strict(schema: Json) -> str:
    """Return what a schema lacks that is to be followed strictly."""
    kinds = schema.get("type") if isinstance(schema.get("type"), list) else [schema.get("type")]
    if not {"type", "anyOf", "$ref"} & schema.keys():
        return "schema must have a 'type' key."
    parts = [*schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    if "array" in kinds:
        parts.append(schema["items"])
    if "object" in kinds:
        if schema.get("additionalProperties") is not False:
            return "'additionalProperties' is required to be supplied and to be false."
        if missing := set(schema["properties"]) - set(schema.get("required", ())):
            return f"'required' is required to be supplied and to include every key in properties. Missing '{min(missing)}'."
        parts += schema["properties"].values()
    return next(filter(None, map(not_strict, parts)), "")
