"""Convert the SDK's exceptions to errors that name the server and the cause."""

import re

import anyio
import mcp_types as wire
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from ..types.client import ServerError, ServerGone
from .http_failures import carried, of_exception
from .process import MAX_MESSAGE_BYTES
from .session import UnansweredQuestion

_UNREAD = re.compile(r"Failed to parse (JSON response|SSE message): ")
_TOO_LARGE = "SSE stream failed: Server-sent event exceeded"
_CLOSED, _STREAM_ENDED = "Connection closed", "SSE stream ended"
"""The SDK's own messages; a server may send the same code with another message."""
_OTHER_REVISION = "Unsupported protocol version from the server: "
_MOST = f"{MAX_MESSAGE_BYTES // 1_000_000} MB"
_MOST_CHARS = 500


def error_of(name: str, url: str, error: BaseException) -> ServerError:
    """Return the error to raise to the caller of a request for an exception."""
    cause = innermost(error)
    match cause:
        case ServerError():
            text = str(cause)
            return type(cause)(text if name in text else f"The MCP server {name} {text}")
        case MCPError() if (failure := carried(cause.data)) is not None:
            return failure.as_error(name, url)
        case MCPError() if (found := _UNREAD.match(cause.message)) is not None:
            why = cause.message[found.end() :]
            known = "is not a JSON-RPC message" if "validation error" in why else f"cannot be used: {why}"
            return ServerError(f"The MCP server {name} sent an answer that {known}.")
        case _ if is_closed(cause):
            return ServerGone(f"The MCP server {name} closed the connection.")
        case MCPError() if cause.message.startswith(_TOO_LARGE):
            return ServerError(f"The MCP server {name} sent an answer of more than {_MOST}.")
        case MCPError():
            return ServerError(f"The MCP server {name} refused: {_words(cause.message)}.")
        case ValidationError():
            first = cause.errors()[0]
            place = ".".join(map(str, first["loc"]))
            return ServerError(f"The MCP server {name} sent what is not valid: {place}: {first['msg']}.")
        case UnansweredQuestion():
            return ServerError(f"The MCP server {name} {_words(str(cause))}.")
        case RuntimeError() if str(cause).startswith(_OTHER_REVISION):
            revision = _words(str(cause).removeprefix(_OTHER_REVISION))
            return ServerError(
                f"The MCP server {name} speaks revision {revision} of the protocol, which is unknown."
            )
        case _ if url:
            return of_exception(error).as_error(name, url)
        case _:
            return ServerError(f"The MCP server {name}: {type(cause).__name__}: {_words(str(cause))}.")


def is_closed(error: BaseException) -> bool:
    """Return True if an exception means that the connection ended."""
    cause = innermost(error)
    if isinstance(cause, MCPError):
        return cause.code == wire.CONNECTION_CLOSED and (
            cause.message == _CLOSED or cause.message.startswith(_STREAM_ENDED)
        )
    return isinstance(cause, anyio.ClosedResourceError | anyio.BrokenResourceError)


def innermost(error: BaseException) -> BaseException:
    """Return the first exception inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def _words(text: str) -> str:
    return " ".join(text.split())[:_MOST_CHARS].rstrip(".")
