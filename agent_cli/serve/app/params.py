"""Parse the params of a request; if they are invalid, the error names the field and what is expected."""

import re
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

import msgspec

from agent_cli.protocol import operation_json
from agent_cli.protocol.operation_json import OperationError
from agent_cli.protocol.operations import Operation

from ..jsonrpc.messages import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from .methods import METHODS, Params

_P = TypeVar("_P", bound=Params)
_FIELD = re.compile(r"field `([^`]+)`|at `\$\.?([^`]*)`")


def read(given: dict[str, Any], kind: type[_P]) -> _P:
    """Return the params of a method.

    Raises:
        RpcError: they are invalid.
    """
    try:
        return msgspec.convert(given, kind)
    except UnicodeEncodeError:
        _refuse_no_text(given)
    except msgspec.ValidationError as error:
        refuse(str(error), tuple(each.encode_name for each in msgspec.structs.fields(kind)))


def read_operation(method: str, given: dict[str, Any]) -> tuple[str, Operation]:
    """Return the session id and the operation of a request.

    Raises:
        RpcError: there is no such method, or its params are invalid.
    """
    if method not in operation_json.NAMES:
        near = get_close_matches(method, (*METHODS, *operation_json.NAMES), 1)
        meant = f"Did you mean `{near[0]}`?" if near else "`initialize` returns them all."
        raise RpcError(METHOD_NOT_FOUND, f"There is no method `{method[:100]}`. {meant}")
    fields = {name: value for name, value in given.items() if name != "session_id"}
    session_id = given.get("session_id")
    if not isinstance(session_id, str):
        missing = "Expected `str` at `$.session_id`" if "session_id" in given else "missing field `session_id`"
        refuse(f"{missing}: `session/open` returns it")
    if "type" in fields:
        refuse("Object contains unknown field `type`: the method says which operation it is")
    try:
        return session_id, operation_json.decode({**fields, "type": method})
    except UnicodeEncodeError:
        _refuse_no_text(given)
    except OperationError as error:
        refuse(str(error).removeprefix(f"{method}: "))


def _refuse_no_text(given: dict[str, Any]) -> NoReturn:
    """Refuse params that have half of a character (a lone surrogate) where no text is expected."""
    name = next((name for name, value in given.items() if not _is_encodable(value)), "")
    refuse(f"Expected another value than half of a character - at `$.{name}`")


def _is_encodable(value: Any) -> bool:
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return False
    return True


def refuse(problem: str, fields: tuple[str, ...] = ()) -> NoReturn:
    """Refuse params with a problem that names the field.

    Raises:
        RpcError: always.
    """
    found = _FIELD.search(problem)
    field = (found[1] or found[2] or "") if found else ""
    data: dict[str, Any] = {"field": field, "problem": problem}
    if fields:
        data["fields"] = fields
        problem += f"; the fields are {', '.join(fields)}"
    raise RpcError(INVALID_PARAMS, f"Wrong params: {problem}.", data)
