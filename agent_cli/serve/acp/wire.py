"""Messages of the client as values: https://agentclientprotocol.com, version 1."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ..jsonrpc.messages import INVALID_PARAMS, RpcError

PROTOCOL_VERSION = 1
AUTH_REQUIRED = -32000
NOT_FOUND = -32002
"""There is no such session."""

T = TypeVar("T")


class _Params(msgspec.Struct, frozen=True, rename="camel"):
    """Parameters of a request; unknown fields are ignored, as the protocol requires."""


class Named(_Params, frozen=True):
    """A name with a value: a variable, or a header."""

    name: str
    value: str


class McpServer(_Params, frozen=True):
    """An MCP server provided by the client."""

    name: str
    type: str = "stdio"
    command: str | None = None
    args: tuple[str, ...] = ()
    env: tuple[Named, ...] = ()
    url: str | None = None
    headers: tuple[Named, ...] = ()


class Initialize(_Params, frozen=True):
    """`initialize`."""

    protocol_version: int | str
    """A string before version 1."""
    client_capabilities: Any = None


class Authenticate(_Params, frozen=True):
    """`authenticate`."""

    method_id: str


class NewSession(_Params, frozen=True):
    """`session/new`."""

    cwd: str
    mcp_servers: tuple[McpServer, ...] | None = None
    additional_directories: tuple[str, ...] | None = None


class SavedSession(NewSession, frozen=True, kw_only=True):
    """`session/load`, `session/resume` and `session/fork`."""

    session_id: str


class ListSessions(_Params, frozen=True):
    """`session/list`."""

    cwd: str | None = None
    cursor: str | None = None


class OfSession(_Params, frozen=True):
    """`session/cancel`, `session/close` and `session/delete`."""

    session_id: str


class SetMode(OfSession, frozen=True):
    """`session/set_mode`."""

    mode_id: str


class SetOption(OfSession, frozen=True):
    """`session/set_config_option`."""

    config_id: str
    value: str


class Prompt(OfSession, frozen=True):
    """`session/prompt`."""

    prompt: tuple[dict[str, Any], ...]


class ClientAbilities(msgspec.Struct, frozen=True):
    """Capabilities of a client."""

    reads_files: bool = False
    """The client provides the text of files in its buffers."""
    writes_files: bool = False
    shows_notices: bool = False
    shows_compaction: bool = False
    shows_forms: bool = False
    has_terminal_login: bool = False

    @property
    def has_files(self) -> bool:
        """True if the client reads or writes files."""
        return self.reads_files or self.writes_files


def abilities(capabilities: Any) -> ClientAbilities:
    """Parse a client's capabilities; invalid ones count as missing."""

    def offered(*path: str) -> bool:
        found = capabilities
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found is True or isinstance(found, Mapping)

    return ClientAbilities(
        reads_files=offered("fs", "readTextFile"),
        writes_files=offered("fs", "writeTextFile"),
        shows_notices=offered("session", "notices"),
        shows_compaction=offered("session", "compaction"),
        shows_forms=offered("elicitation", "form"),
        has_terminal_login=offered("auth", "terminal"),
    )


def read(params: dict[str, Any], kind: type[T]) -> T:
    """Return the parameters of a request.

    Raises:
        RpcError: they do not fit the method.
    """
    try:
        return msgspec.convert(params, kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # the latter: half of a character
        raise RpcError(INVALID_PARAMS, f"{error}.") from error


def failure(code: int, message: str, **data: Any) -> RpcError:
    """Return an error that the user must read. Some clients show only its `details`, as the SDKs send them."""
    return RpcError(code, message, {"details": message, **data})
