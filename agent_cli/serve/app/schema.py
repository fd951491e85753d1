"""The JSON Schema of all messages of the app server, generated from the types."""

import json
from typing import Any

import msgspec
from msgspec.structs import fields

from agent_cli.protocol import operation_json

from ..jsonrpc.peer import CANCEL_METHOD
from .methods import EVENT, METHODS, PROTOCOL_VERSION, EventParams, Submitted

_REF = "#/$defs/{name}"
_ID = {"type": ["integer", "string"]}
_ERROR = {
    "type": "object",
    "properties": {"code": {"type": "integer"}, "message": {"type": "string"}, "data": {}},
    "required": ["code", "message"],
}


def schema_text() -> str:
    """Return the schema as JSON text."""
    return json.dumps(schema(), indent=1)


def schema() -> dict[str, Any]:
    """Return the schema: it accepts every message, and its `methods` have the params and result of each method."""
    types = [*dict.fromkeys(kind for each in METHODS.values() for kind in (each.params, each.result))]
    kinds = [*types, Submitted, EventParams]
    found, parts = msgspec.json.schema_components(kinds, ref_template=_REF)
    by_kind = dict(zip(kinds, found, strict=True))
    operations = operation_json.schema()
    parts = {**operations["$defs"], **parts}
    methods = {
        name: _method(each.params.__doc__ or "", by_kind[each.params], by_kind[each.result])
        for name, each in METHODS.items()
    }
    for name, ref in operations["discriminator"]["mapping"].items():
        operation = parts.pop(ref.rpartition("/")[2])
        described = operation.pop("description", "")
        methods[name] = _method(described, _for_session(operation), by_kind[Submitted])
    results = {json.dumps(each["result"]): each["result"] for each in methods.values()}
    without = {name for name, each in METHODS.items() if not any(f.required for f in fields(each.params))}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"agent serve, protocol {PROTOCOL_VERSION}",
        "anyOf": [
            *(_request(name, each["params"], optional=name in without) for name, each in methods.items()),
            _answer({"result": {"anyOf": [*results.values()]}}, _ID),
            _answer({"error": _ERROR}, {"type": ["integer", "string", "null"]}),
            _notification(EVENT, by_kind[EventParams]),
            _notification(CANCEL_METHOD, {"type": "object", "properties": {"requestId": _ID}}),
        ],
        "methods": methods,
        "$defs": parts,
    }


def _method(description: str, params: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    return {"description": " ".join(description.split()), "params": params, "result": result}


def _for_session(operation: dict[str, Any]) -> dict[str, Any]:
    """Return the params of the method that submits an operation."""
    properties = {name: each for name, each in operation["properties"].items() if name != "type"}
    required = [name for name in operation["required"] if name != "type"]
    session_id = {"type": "string", "description": "Id of an open session."}
    return {
        **operation,
        "properties": {"session_id": session_id, **properties},
        "required": ["session_id", *required],
    }


def _request(method: str, params: dict[str, Any], *, optional: bool) -> dict[str, Any]:
    message = _notification(method, params)
    message["properties"]["id"] = _ID
    message["required"] = ["jsonrpc", "id", "method", *([] if optional else ["params"])]
    return message


def _notification(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return _message({"method": {"const": method}, "params": params})


def _answer(what: dict[str, Any], identifier: dict[str, Any]) -> dict[str, Any]:
    return _message({"id": identifier, **what})


def _message(parts: dict[str, Any]) -> dict[str, Any]:
    properties = {"jsonrpc": {"const": "2.0"}, **parts}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
