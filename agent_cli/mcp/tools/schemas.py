"""Parameter schemas of servers' tools in a form that every provider accepts.

Servers write them by hand, or for older drafts of JSON Schema. A provider that refuses one refuses the whole
request, with all other tools in it, so what is not valid is left out: the tool can still be called, and its server
checks the arguments. Providers also want an object at the top without alternatives, so these are merged there.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.sanitize import visible

_DEEPEST = 60
"""Levels after which a schema accepts anything."""
_MOST_MERGED = 100
_GONE: Any = object()
"""Stands for a value that is left out."""
_WORDS = ("description", "title", "$comment")
_TYPES = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))
_ALIASES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "dict": "object",
    "list": "array",
}
_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_NOT_AT_TOP = ("enum", "const", "not", "if", "then", "else")
"""Keywords that providers refuse at the top."""
_NAME = lazy_regex(r"[a-zA-Z0-9_.-]{1,64}")
"""Parameter names that Anthropic accepts; it refuses requests with any other, such as OData's `$filter`."""
_NOT_IN_NAMES = lazy_regex(r"[^a-zA-Z0-9_.-]+")


def object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a parameter schema that every provider accepts, with an object at the top. Control and invisible
    characters in its texts are escaped, and parameters have names as in `_wire_names`."""
    found = _as_object(schema)
    names = _wire_names(found["properties"])
    if all(name == wire for name, wire in names.items()):
        return found
    found = _referring(found, names, 0)
    properties = {names[name]: _named(part, name, names[name]) for name, part in found["properties"].items()}
    required = [names.get(name, name) for name in found.get("required", ())]
    return {**found, "properties": properties, **({"required": required} if required else {})}


def server_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call under the names in the server's own schema."""
    own = schema.get("properties")
    if isinstance(own, Mapping) and arguments.keys() <= own.keys():
        return dict(arguments)
    names = {wire: name for name, wire in _wire_names(_as_object(schema)["properties"]).items()}
    return {names.get(key, key): value for key, value in arguments.items()}


def _as_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    whole = _sound(schema, 0)
    found = _merged(whole, whole, iter(range(_MOST_MERGED)))
    return {**found, "type": "object", "properties": found.get("properties", {})}


def _wire_names(names: Iterable[str]) -> dict[str, str]:
    """Return the name of each parameter in requests: its own if every provider accepts it, else one like it."""
    found = {name: name for name in names if _NAME.fullmatch(name)}
    for name in names:
        if name in found:
            continue
        like = _NOT_IN_NAMES.sub("_", name).strip("_")[:60] or "parameter"
        number, wire = 1, like
        while wire in found.values():
            number, wire = number + 1, f"{like}_{number + 1}"
        found[name] = wire
    return found


def _referring(value: Any, names: Mapping[str, str], depth: int) -> Any:
    """Return a schema whose references to parameters give their names in requests."""
    if isinstance(value, list):
        return [_referring(each, names, depth) for each in value]
    if not isinstance(value, dict) or depth > 2 * _DEEPEST:
        return value
    made = {key: _referring(each, names, depth + 1) for key, each in value.items()}
    match str(made.get("$ref", "")).split("/", 3):
        case ["#", "properties", name, *rest] if (own := _unescaped(name)) in names:
            made["$ref"] = "/".join(("#", "properties", names[own], *rest))
    return made


def _unescaped(name: str) -> str:
    """Return a part of a reference as it is (RFC 6901)."""
    return name.replace("~1", "/").replace("~0", "~")


def _named(part: dict[str, Any], name: str, wire: str) -> dict[str, Any]:
    """Return the schema of a parameter, which says its real name if that is another: texts may speak of it."""
    if name == wire:
        return part
    return {**part, "description": ". ".join(filter(None, (visible(name), part.get("description", ""))))}


def _sound(schema: Any, depth: int) -> dict[str, Any]:
    """Return a schema without what is not valid; anything that is no schema accepts every value."""
    if schema is False:
        return {"not": {}}
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return {}
    found = {}
    for key, value in _with_prefix_items(schema).items():
        read = _KEYWORDS.get(key)
        if (made := read(value, depth + 1) if read else value) is not _GONE:
            found[str(key)] = made
    return found


def _with_prefix_items(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema with tuples as JSON Schema 2020-12 writes them; draft 7 writes a list of `items`."""
    if not isinstance(schema.get("items"), list):
        return schema
    rest = {key: value for key, value in schema.items() if key not in ("items", "additionalItems")}
    more = {"items": schema["additionalItems"]} if "additionalItems" in schema else {}
    return {**rest, "prefixItems": schema["items"], **more}


def _type(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        name = _ALIASES.get(value.lower(), value.lower())
        return name if name in _TYPES else _GONE
    names = [_type(each, depth) for each in value if isinstance(each, str)] if isinstance(value, list) else []
    return list(dict.fromkeys(name for name in names if name is not _GONE)) or _GONE


def _kept_if(holds: Callable[[Any], bool]) -> Callable[[Any, int], Any]:
    """Return a reader that keeps a value as it is, or leaves it out."""
    return lambda value, depth: value if holds(value) else _GONE


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _word(value: Any, depth: int) -> Any:
    return visible(value) if isinstance(value, str) else _GONE


def _names(value: Any, depth: int) -> Any:
    if not isinstance(value, list):
        return _GONE
    return list(dict.fromkeys(each for each in value if isinstance(each, str)))


def _schemas(value: Any, depth: int) -> Any:
    return [_sound(each, depth) for each in value] or _GONE if isinstance(value, list) else _GONE


def _named_schemas(value: Any, depth: int) -> Any:
    if not isinstance(value, Mapping):
        return _GONE
    return {str(name): _sound(each, depth) for name, each in value.items()}


def _schema(value: Any, depth: int) -> Any:
    return _sound(value, depth) if isinstance(value, Mapping | bool) else _GONE


def _schema_or_flag(value: Any, depth: int) -> Any:
    return value if isinstance(value, bool) else _schema(value, depth)


_KEYWORDS: Mapping[str, Callable[[Any, int], Any]] = {
    "type": _type,
    "required": _names,
    "$ref": _kept_if(lambda value: _is_text(value) and value.startswith("#")),  # a provider fetches no other
    **dict.fromkeys(_WORDS, _word),
    **dict.fromkeys(("format", "pattern", "$id", "$anchor"), _kept_if(_is_text)),
    "$schema": lambda value, depth: _GONE,  # tells a model nothing, and costs tokens with every tool
    **dict.fromkeys(
        ("uniqueItems", "readOnly", "writeOnly", "deprecated"), _kept_if(lambda value: isinstance(value, bool))
    ),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _kept_if(_is_number)
    ),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        _kept_if(lambda value: _is_number(value) and isinstance(value, int) and value >= 0),
    ),
    **dict.fromkeys(("enum", "examples"), _kept_if(lambda value: isinstance(value, list) and bool(value))),
    **dict.fromkeys((*_ALTERNATIVES, "prefixItems"), _schemas),
    **dict.fromkeys(
        ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"), _named_schemas
    ),
    **dict.fromkeys(("not", "if", "then", "else", "contains", "propertyNames"), _schema),
    **dict.fromkeys(
        ("items", "additionalProperties", "unevaluatedItems", "unevaluatedProperties"), _schema_or_flag
    ),
}
"""How the value of a keyword is read; other keywords are kept as they are."""


def _merged(schema: dict[str, Any], root: dict[str, Any], merges: Iterator[int]) -> dict[str, Any]:
    """Return a schema of an object without alternatives: all their properties, and what each of them requires.
    `merges` bounds the parts, which may refer to each other."""
    found = {key: value for key, value in schema.items() if key not in (*_ALTERNATIVES, *_NOT_AT_TOP, "$ref")}
    parts = [("allOf", target)] if (target := _target(root, schema.get("$ref"))) else []
    parts += [(key, part) for key in _ALTERNATIVES for part in schema.get(key, ())]
    if not parts:
        return found
    properties, required = dict(found.get("properties", {})), list(found.get("required", ()))
    for (kind, part), _ in zip(parts, merges, strict=False):
        inner = _merged(part, root, merges)
        properties = {**inner.get("properties", {}), **properties}
        required += inner.get("required", ()) if kind == "allOf" else ()
    found["properties"] = properties
    if required := [name for name in dict.fromkeys(required) if name in properties]:
        found["required"] = required
    return found


def _target(root: dict[str, Any], reference: Any) -> dict[str, Any] | None:
    """Return the schema that a reference such as `#/$defs/Name` leads to; None if there is none."""
    value: Any = root
    for part in str(reference or "").split("/")[1:]:
        value = value.get(_unescaped(part)) if isinstance(value, dict) else None
    return value if reference and isinstance(value, dict) and value is not root else None
