"""Convert server definitions from the formats of other programs.

Formats: Claude Code and Cursor (`mcpServers`), VS Code (`servers`), Codex (TOML), Gemini CLI, OpenCode.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from agent_cli.config.schema import McpOAuth, McpServer, McpTools

_MS = 1000.0
_LONGEST_S = 86_400.0


class FormatError(Exception):
    """A file or an entry cannot be read; the text says why."""


class _Entry(msgspec.Struct):
    """What the formats share but for OpenCode's `command`."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    oauth: Any = None


class _Claude(_Entry, rename="camel"):
    type: str | None = None
    headers: dict[str, str] = {}
    timeout: float | None = None
    disabled: bool = False
    auth: Any = None


class _Gemini(_Claude, rename="camel"):
    http_url: str | None = None
    include_tools: list[str] = []
    exclude_tools: list[str] = []


class _Codex(_Entry):
    env_vars: list[str] = []
    bearer_token_env_var: str | None = None
    http_headers: dict[str, str] = {}
    env_http_headers: dict[str, str] = {}
    enabled: bool = True
    startup_timeout_sec: float | None = None
    tool_timeout_sec: float | None = None
    enabled_tools: list[str] = []
    disabled_tools: list[str] = []
    scopes: list[str] = []


class _OpenCode(msgspec.Struct):
    type: str | None = None
    command: list[str] = []
    cwd: str | None = None
    environment: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    enabled: bool = True
    timeout: float | None = None
    oauth: Any = None


_UNUSED = {
    "envFile": "write its variables under `env`",
    "headersHelper": "write the headers under `headers`, with `${NAME}` for secrets",
    "authProviderType": "only logins of the server itself are supported",
}
"""Keys of entries that change how a server is reached and have no effect here, and what to do instead."""


def without_effect(raw: Any) -> list[str]:
    """Return what has no effect in an entry of any product, with a way out."""
    keys = raw if isinstance(raw, Mapping) else {}
    return [f"`{key}` has no effect: {instead}" for key, instead in _UNUSED.items() if keys.get(key)]


def claude(raw: Any) -> McpServer:
    """Convert an entry of Claude Code.

    Raises:
        FormatError: the entry is invalid.
    """
    entry = _converted(raw, _Claude)
    kinds = {"streamable-http": "http", "streamableHttp": "http"}
    kind = kinds.get(entry.type or "", entry.type)
    if kind not in (None, "stdio", "http", "sse"):
        raise FormatError(f"the type {kind!r} is not supported")
    return _like_claude(entry, type=kind, oauth=_oauth(entry.oauth or entry.auth))


def cursor(raw: Any) -> McpServer:
    """Convert an entry of Cursor or VS Code, whose variables are `${env:NAME}`; raises as `claude`."""
    return claude(_each_text(raw, _from_editor))


def codex(raw: Any) -> McpServer:
    """Convert an entry of Codex; raises as `claude`."""
    entry = _converted(raw, _Codex)
    headers = {**entry.http_headers, **{name: f"${{{env}}}" for name, env in entry.env_http_headers.items()}}
    if entry.bearer_token_env_var:
        headers["Authorization"] = f"Bearer ${{{entry.bearer_token_env_var}}}"
    return _server(
        entry,
        env={**{name: f"${{{name}:-}}" for name in entry.env_vars}, **entry.env},
        headers=headers,
        oauth=_oauth(entry.oauth, entry.scopes),
        enabled=entry.enabled,
        tools=McpTools(allow=tuple(entry.enabled_tools), deny=tuple(entry.disabled_tools)),
        **_seconds("timeout_s", entry.tool_timeout_sec),
        **_seconds("start_timeout_s", entry.startup_timeout_sec),
    )


def codex_json(raw: Any) -> McpServer:
    """Convert an entry of a Codex plug-in, which may be in Claude Code's format; raises as `claude`."""
    if isinstance(raw, Mapping) and not raw.keys() & _ONLY_CODEX:
        return claude(raw)
    if isinstance(raw, Mapping) and "headers" in raw:
        raw = {"http_headers": raw["headers"], **raw}
    return codex(raw)


def of_plugin(raw: Any) -> Any:
    """Return an entry of a plug-in with the path separator variable replaced.

    Raises:
        FormatError: it requires a setting of the plug-in, or is nested too deeply.
    """
    try:
        return _each_text(raw, _from_plugin)
    except RecursionError as error:
        raise FormatError("it is nested too deep") from error


def _from_plugin(text: str) -> str:
    if "${user_config." in text:
        raise FormatError("it asks for a setting of the plug-in (`${user_config.…}`)")
    return text.replace("${/}", "/")


_ONLY_CODEX = set(_Codex.__struct_fields__) - set(_Claude.__struct_fields__)


def gemini(raw: Any) -> McpServer:
    """Convert an entry of Gemini CLI, whose variables may be `$NAME`; raises as `claude`."""
    entry = _converted(_each_text(raw, _from_dollar), _Gemini)
    only_url = bool(entry.url and not entry.http_url and not entry.command)
    return _like_claude(
        entry,
        type=("http" if entry.type == "http" else "sse") if only_url else None,
        url=entry.http_url or entry.url,
        tools=McpTools(
            allow=tuple(pattern.partition("(")[0] for pattern in entry.include_tools),
            deny=tuple(entry.exclude_tools),
        ),
    )


def opencode(raw: Any) -> McpServer:
    """Convert an entry of OpenCode, whose variables are `{env:NAME}`; raises as `claude`."""
    entry = _converted(_each_text(raw, _from_braces), _OpenCode)
    return McpServer(
        command=entry.command[0] if entry.command else None,
        args=tuple(entry.command[1:]),
        env=entry.environment,
        cwd=entry.cwd,
        url=entry.url,
        headers=entry.headers,
        oauth=_oauth(entry.oauth),
        enabled=entry.enabled,
    )


def _like_claude(entry: _Claude, **given: Any) -> McpServer:
    timeout = _seconds("timeout_s", entry.timeout, _MS)
    return _server(entry, **{"headers": entry.headers, "enabled": not entry.disabled, **timeout, **given})


def _server(entry: _Entry, **given: Any) -> McpServer:
    """Create a server from the fields that the formats share; those that are `given` replace them."""
    shared = {name: getattr(entry, name) for name in ("command", "env", "cwd", "url")}
    return McpServer(**{**shared, "args": tuple(entry.args), "oauth": _oauth(entry.oauth), **given})


_DOLLAR = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_EDITOR = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_BRACES = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


def _from_dollar(text: str) -> str:
    return _DOLLAR.sub(r"${\1}", text)


def _from_editor(text: str) -> str:
    if "${input:" in text:
        raise FormatError("it asks for an input of the editor (`${input:…}`)")
    return _EDITOR.sub(r"${\1}", text).replace("${workspaceFolder}", ".").replace("${userHome}", "${HOME}")


def _from_braces(text: str) -> str:
    if "{file:" in text:
        raise FormatError("it reads a value from a file (`{file:…}`), which is not supported")
    return _BRACES.sub(r"${\1}", text)


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_each_text(item, change) for item in value]
    if isinstance(value, Mapping):
        return {key: _each_text(item, change) for key, item in value.items()}
    return value


def _oauth(given: Any, scopes: Sequence[str] = ()) -> McpOAuth:
    """Return the login settings of an entry, under the keys of any product. What is unreadable counts as not
    given, as most servers register clients by themselves."""
    if not isinstance(given, Mapping):
        return McpOAuth(scopes=tuple(scopes))
    values = {str(key).replace("_", "").lower(): value for key, value in given.items()}
    listed = next((each for each in map(values.get, ("scopes", "scope")) if isinstance(each, str | list)), scopes)
    port = values.get("callbackport")
    return McpOAuth(
        client_id=_text(values.get("clientid")),
        client_secret=_text(values.get("clientsecret")),
        scopes=tuple(listed.split() if isinstance(listed, str) else map(str, listed)),
        callback_port=port if isinstance(port, int) and 0 < port < 65_536 else 0,
        callback_host="127.0.0.1" if port is None else "localhost",  # a key of Claude Code, which redirects there
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _seconds(name: str, value: float | None, unit: float = 1.0) -> dict[str, Any]:
    return {name: min(value / unit, _LONGEST_S)} if value is not None and value > 0 else {}


_OF_TEXTS = ("env", "environment", "headers", "http_headers")


def _with_texts(raw: Any) -> Any:
    """Return an entry with plain values among variables, headers and arguments as texts, as people write ports and
    switches; a variable that is `null` is left out."""
    if not isinstance(raw, Mapping):
        return raw
    made = {
        key: {name: _as_text(each) for name, each in value.items() if each is not None}
        if key in _OF_TEXTS and isinstance(value, Mapping)
        else value
        for key, value in raw.items()
    }
    if isinstance(listed := raw.get("args"), list):
        made["args"] = [_as_text(each) for each in listed]
    return made


def _as_text(value: Any) -> Any:
    """Return a number or a boolean as JSON has it; other values as they are."""
    return msgspec.json.encode(value).decode() if isinstance(value, bool | int | float) else value


def _converted(raw: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(_with_texts(raw), kind, strict=False)
    except msgspec.ValidationError as error:
        raise FormatError(str(error)) from error
