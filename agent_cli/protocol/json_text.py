"""Reading JSON that others wrote: files, servers, models, editors."""

from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")


class NestedTooDeeplyError(msgspec.DecodeError):
    """JSON has more levels than the parser can read."""


@overload
def decode_json(data: bytes | str, type: type[T]) -> T: ...


@overload
def decode_json(data: bytes | str, type: Any = ...) -> Any: ...


def decode_json(data: bytes | str, type: Any = Any) -> Any:
    """Decode a JSON text as a value of a type.

    `msgspec.json.decode` also raises what readers forget: `RecursionError`, and `UnicodeError` for bytes that are
    not UTF-8 and for lone surrogates. Here each is a `msgspec.DecodeError`.

    Raises:
        NestedTooDeeplyError: it has too many levels.
        msgspec.DecodeError: it is not JSON, or not a value of this type.
    """
    try:
        return msgspec.json.decode(data, type=type)
    except RecursionError as error:
        raise NestedTooDeeplyError("JSON is nested too deeply") from error
    except UnicodeError as error:
        raise msgspec.DecodeError(f"JSON is not valid UTF-8: {error}") from error


def decode_lenient_json(data: bytes | str) -> Any:
    """Decode a JSON text, with `NaN` and escaped lone surrogates, which some programs write.

    Raises:
        NestedTooDeeplyError: it has too many levels.
        msgspec.DecodeError: it is not JSON.
    """
    try:
        return msgspec.json.decode(data)  # directly: called for each piece of a streamed answer
    except (ValueError, RecursionError):
        pass
    import json

    try:
        return json.loads(data)
    except RecursionError as error:
        raise NestedTooDeeplyError("JSON is nested too deeply") from error
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error
