"""JSON-RPC 2.0 messages as values, and as lines."""

from typing import Any

import msgspec

from agent_cli.protocol.json_text import decode_lenient_json

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CANCELLED = -32800
"""From the Language Server Protocol, whose `$/cancel_request` other protocols have adopted."""
OVERLOADED = -32001
"""Too many requests of a client run at once."""

RequestId = int | str


class RpcError(Exception):
    """A protocol error, received from or sent to the other side."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        """`data` is any JSON value; None omits it."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Disconnected(Exception):
    """The other side is gone, so no answer will come."""


class Request(msgspec.Struct, frozen=True):
    """A request, which gets a response, or a notification, which does not."""

    method: str
    params: dict[str, Any]
    id: RequestId | None = None
    """None for a notification."""


class Response(msgspec.Struct, frozen=True):
    """The response to a request of ours."""

    id: RequestId | None
    """None in an error about a message whose id the other side could not read, such as a notification."""
    result: Any = None
    error: RpcError | None = None


def decode(line: bytes) -> Request | Response:
    """Decode the message of a line.

    Raises:
        RpcError: it is not JSON, or not a message; `data` is its id if that is readable.
    """
    try:
        found = decode_lenient_json(line)
    except msgspec.DecodeError as error:
        raise RpcError(PARSE_ERROR, f"This line is not JSON: {error}") from error
    if not isinstance(found, dict):
        kind = "batches are not supported" if isinstance(found, list) else "a message is an object"
        raise RpcError(INVALID_REQUEST, f"Not a JSON-RPC message: {kind}.")
    identifier = found.get("id")
    if identifier is not None and (isinstance(identifier, bool) or not isinstance(identifier, int | str)):
        raise RpcError(INVALID_REQUEST, "`id` is a number or a text.")
    if "method" in found:
        return _request(found, identifier)
    if "error" in found or (identifier is not None and "result" in found):
        return Response(identifier, found.get("result"), _error(found.get("error")))
    raise RpcError(INVALID_REQUEST, "Not a JSON-RPC message: `method` is missing.", identifier)


def _request(found: dict[str, Any], identifier: RequestId | None) -> Request:
    method, params = found["method"], found.get("params")
    if not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, "`method` is a text.", identifier)
    if not isinstance(params, dict | None):
        raise RpcError(INVALID_PARAMS, "`params` is an object.", identifier)
    return Request(method, params or {}, identifier)


def _error(found: Any) -> RpcError | None:
    if found is None:
        return None
    if not isinstance(found, dict):
        return RpcError(INTERNAL_ERROR, str(found))
    code, message = found.get("code"), found.get("message")
    return RpcError(code if isinstance(code, int) else INTERNAL_ERROR, str(message), found.get("data"))


def encode_request(method: str, params: Any, identifier: RequestId | None = None) -> bytes:
    """Return the line of a request, or of a notification if there is no id."""
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    return _line(message if identifier is None else {"jsonrpc": "2.0", "id": identifier, **message})


def encode_result(identifier: RequestId, result: Any) -> bytes:
    """Return the line of a result."""
    return _line({"jsonrpc": "2.0", "id": identifier, "result": result})


def encode_error(identifier: RequestId | None, error: RpcError) -> bytes:
    """Return the line of an error; without an id it answers a line that could not be decoded."""
    body = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return _line({"jsonrpc": "2.0", "id": identifier, "error": body})


def _line(message: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot encode
        import json

        return json.dumps(msgspec.to_builtins(message)).encode() + b"\n"
