"""Servers of the user's own configuration."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from agent_cli.config.expand import expand
from agent_cli.config.layer import ConfigError
from agent_cli.config.schema import McpServer

from ..types.definition import OAuthSettings, ServerDefinition, ToolChoice, Transport

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def configured(
    servers: Mapping[str, McpServer], env: Mapping[str, str], root: Path, source: str
) -> tuple[ServerDefinition, ...]:
    """Return the definitions under `mcp_servers`, with variables expanded; `problem` says why one cannot start."""
    return tuple(_definition(name, server, env, root, source) for name, server in servers.items())


def _definition(name: str, server: McpServer, env: Mapping[str, str], root: Path, source: str) -> ServerDefinition:
    problems: list[str] = []

    def filled(text: str) -> str:
        try:
            return expand(text, env, f"mcp_servers.{name}")
        except ConfigError as error:
            problems.append(str(error))
            return text

    transport = _transport(server, problems, name)
    return ServerDefinition(
        name=name,
        transport=transport,
        command=tuple(map(filled, (server.command, *server.args))) if server.command else (),
        env={key: filled(value) for key, value in server.env.items()},
        cwd=os.path.normpath(root / os.path.expanduser(filled(server.cwd))) if server.cwd else "",
        url=filled(server.url or ""),
        headers={key: filled(value) for key, value in server.headers.items()},
        oauth=_oauth(server, filled),
        enabled=server.enabled,
        timeout_s=server.timeout_s,
        idle_timeout_s=server.idle_timeout_s,
        start_timeout_s=server.start_timeout_s,
        tools=ToolChoice(server.tools.allow, server.tools.deny, server.tools.always),
        max_result_tokens=server.max_result_tokens,
        sampling=server.sampling,
        sandbox=server.sandbox,
        source=source,
        problem="; ".join(dict.fromkeys(problems)),
    )


def _transport(server: McpServer, problems: list[str], name: str) -> Transport:
    key = f"mcp_servers.{name}"
    if not _NAME.fullmatch(name):
        problems.append(f"{key}: a name has letters, digits, `.`, `_` and `-`, at most 64")
    if bool(server.command) == bool(server.url):
        problems.append(f"{key}: give either `command` or `url`")
    elif server.command and server.type in ("http", "sse"):
        problems.append(f"{key}: type {server.type} needs a `url`, not a `command`")
    elif server.url and server.type == "stdio":
        problems.append(f"{key}: type stdio needs a `command`, not a `url`")
    if server.url and not server.url.startswith(("http://", "https://", "${")):
        problems.append(f"{key}: the url must begin with http:// or https://")
    return server.type or ("stdio" if server.command else "http")


def _oauth(server: McpServer, filled: Callable[[str], str]) -> OAuthSettings:
    given = server.oauth
    return OAuthSettings(
        filled(given.client_id or ""), filled(given.client_secret or ""), given.scopes, given.callback_port
    )
