"""JSON Schema for tool parameters, without references: the subset of types used for parameters, with keywords that
every provider accepts. msgspec's generator adds references and titles, which cost tokens and which some providers
refuse."""

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec.structs import fields as struct_fields

_SIMPLE: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def object_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of a Struct as a JSON object: its fields in order, and no others allowed.

    Raises:
        TypeError: a field has a type outside the subset.
    """
    fields = struct_fields(struct)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {field.encode_name: _schema(field.type) for field in fields},
    }
    if required := [field.encode_name for field in fields if field.required]:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schema


def _schema(kind: Any) -> dict[str, Any]:
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind]}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return {**_schema(arguments[0]), **_notes(kind.__metadata__)}
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in (Union, types.UnionType):
        (inner,) = (argument for argument in arguments if argument is not types.NoneType)
        return _schema(inner)
    if origin in (list, tuple):
        return {"type": "array", "items": _schema(arguments[0])}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return object_schema(kind)
    raise TypeError(f"no schema for {kind!r}")


def _notes(metadata: tuple[Any, ...]) -> dict[str, Any]:
    names = {"description": "description", "ge": "minimum", "le": "maximum"}
    names |= {"min_length": "minItems", "max_length": "maxItems"}
    found: dict[str, Any] = {}
    for meta in metadata:
        if isinstance(meta, msgspec.Meta):
            notes = {key: getattr(meta, name) for name, key in names.items()}
            found |= {key: note for key, note in notes.items() if note is not None}
    return found


def fields_in_words(struct: type[msgspec.Struct]) -> str:
    """Return fields like `path (string, required), action (list/read)`, for a message about wrong arguments."""
    schema = object_schema(struct)
    required = schema.get("required", ())
    return ", ".join(
        f"{name} ({'/'.join(part.get('enum', [part['type']]))}{', required' if name in required else ''})"
        for name, part in schema["properties"].items()
    )
