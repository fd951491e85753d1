"""`agent mcp add` and `remove`: edit the servers in the user's configuration file."""

import re
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

import typer
from typer.core import TyperCommand

from agent_cli.bootstrap.mcp_servers import every_server, found_servers, is_server_name
from agent_cli.bootstrap.options import UsageError
from agent_cli.bootstrap.setup import Setup
from agent_cli.config.dirs import config_dir
from agent_cli.config.edit import remove_key, set_value
from agent_cli.config.layer import ConfigError
from agent_cli.config.yaml_file import parse
from agent_cli.mcp.catalog.offer_store import OfferStore
from agent_cli.redaction.env_names import is_secret

from ...services.completion import server_names
from ...services.config_file import rewrite

_KEY = "mcp_servers"
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_TRANSPORTS = ("stdio", "http", "sse")


class AddCommand(TyperCommand):
    """Passes all words after a server's program on to it: `add NAME npx -y PACKAGE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert `--` before the program, unless the user has."""
        return super().parse_args(ctx, _with_end_of_options(args, self.params))


def _with_end_of_options(args: list[str], parameters: list[Any]) -> list[str]:
    takes_value = {
        name for each in parameters if not getattr(each, "is_flag", True) for name in each.opts if name[:1] == "-"
    }
    positional, at = 0, 0
    while at < len(args) and args[at] != "--":
        if args[at].startswith("-"):
            at += 2 if args[at] in takes_value else 1
            continue
        positional += 1
        if positional == 2 and not _is_url(args[at]):
            return [*args[:at], "--", *args[at:]]
        at += 1
    return args


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, -, _ and .")],
    target: Annotated[
        list[str] | None,
        typer.Argument(metavar="URL|COMMAND", help="An address, or a command and its arguments."),
    ] = None,
    url: Annotated[str | None, typer.Option(help="Address of the server.")] = None,
    transport: Annotated[
        str | None,
        typer.Option(
            "--transport",
            "-t",
            metavar="|".join(_TRANSPORTS),
            help="How the server is reached: stdio for a command, http for a URL unless given.",
            autocompletion=lambda: [*_TRANSPORTS],
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", "-e", metavar="NAME=VALUE", help="Environment variable for the command (repeatable)."
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar='"NAME: VALUE"', help="HTTP header for the URL (repeatable)."),
    ] = None,
    scope: Annotated[
        str | None,
        typer.Option("--scope", "-s", metavar="user", help="Where to write it: only your own file."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace a server of that name.")] = False,
) -> int:
    """Add a server to your configuration file. Options stand before the program: what follows it is its own."""
    if not is_server_name(name):
        raise UsageError(f"{name!r} is not a valid server name: use letters, digits, -, _ and .")
    if scope not in (None, "user"):
        raise UsageError(f"--scope {scope} is not supported: servers of a project are defined in its .mcp.json")
    server = _server(list(target or ()), url, transport, env or [], header or [])
    setup = Setup()
    path = config_dir() / "config.yaml"
    try:
        rewrite(path, lambda text: _added(text, name, server, path, force))
    except (ConfigError, UsageError) as error:
        raise UsageError(f"{error}; nothing was written") from error
    print(f"Added {name} to {path}. `agent mcp test {name}` tries it.")
    for line in (*_literal_secrets(server), *_other_definitions(setup, name)):
        print(f"agent: {line}", file=sys.stderr)
    return 0


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The server.", autocompletion=server_names)],
) -> int:
    """Remove a server from your configuration file."""
    path = config_dir() / "config.yaml"
    setup = Setup()
    known = {each.name: each for each in every_server(found_servers(setup))}
    try:
        rewrite(path, lambda text: _removed(text, name, path, {key: each.source for key, each in known.items()}))
    except (ConfigError, UsageError) as error:
        raise UsageError(f"{error}; nothing was removed") from error
    if name in known:
        OfferStore(setup.state / "mcp").forget(known[name])
    print(f"Removed {name} from {path}.")
    for line in _other_definitions(Setup(), name, "it is now the one of"):
        print(f"agent: {line}", file=sys.stderr)
    return 0


def _added(text: str, name: str, server: dict[str, Any], path: Path, force: bool) -> str:
    if name in _own(text, path):
        if not force:
            raise UsageError(f"{path} has a server named {name} already; --force replaces it")
        text = remove_key(text, [_KEY, name], path)
    return set_value(text, [_KEY, name], server, path)


def _removed(text: str, name: str, path: Path, sources: dict[str, str]) -> str:
    if name in _own(text, path):
        return remove_key(text, [_KEY, name], path)
    if name in sources:
        raise UsageError(f"the MCP server {name} is defined in {sources[name]}; remove it there")
    known = ", ".join(sources)
    raise UsageError(f"there is no MCP server named {name!r}" + (f"; the servers are: {known}" if known else ""))


def _own(text: str, path: Path) -> dict[str, Any]:
    return parse(text.encode(), path).values.get(_KEY) or {}


def _server(
    target: list[str], url: str | None, transport: str | None, env: list[str], headers: list[str]
) -> dict[str, Any]:
    """Return a configuration entry."""
    if url is not None and target:
        raise UsageError("give either a command or --url")
    if url is None and target and _is_url(target[0]):
        url, *rest = target
        if rest:
            raise UsageError(f"a URL takes no arguments: {' '.join(rest)}")
    if transport not in (None, *_TRANSPORTS):
        raise UsageError(f"--transport: {transport!r} is not one of {', '.join(_TRANSPORTS)}")
    if url is None:
        if target and _ADDRESS.match(target[0]):
            raise UsageError(f"{target[0]!r} is not a URL of a server: it must begin with http:// or https://")
        return _program(target, transport, env, headers)
    if not _is_url(url):
        raise UsageError(f"{url!r} is not a URL: it must begin with http:// or https://")
    if "${" not in url and not _has_host(url):
        raise UsageError(f"{url!r} is not a URL: its host or port cannot be read")
    if transport == "stdio":
        raise UsageError("--transport stdio needs a command, not a URL")
    if env:
        raise UsageError("--env is for a command; a URL takes --header")
    given = dict(_header(each) for each in headers)
    server = {"type": transport if transport == "sse" else None, "url": url, "headers": given}
    return {key: value for key, value in server.items() if value}


def _program(target: list[str], transport: str | None, env: list[str], headers: list[str]) -> dict[str, Any]:
    if not target:
        raise UsageError("give a URL, or a command after the name")
    if transport in ("http", "sse"):
        raise UsageError(f"--transport {transport} needs a URL that begins with http:// or https://")
    if headers:
        raise UsageError("--header is for a URL; a command takes --env")
    server = {"command": target[0], "args": target[1:], "env": dict(_variable(each) for each in env)}
    return {key: value for key, value in server.items() if value}


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--env: write NAME=VALUE, not {text!r}")
    return name, value


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or not text.isprintable():
        raise UsageError(f'--header: write "NAME: VALUE", not {text!r}')
    return name.strip(), value.strip()


def _is_url(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


def _has_host(url: str) -> bool:
    """Return True if a URL names a host, and a valid port if any."""
    try:
        return bool(urlsplit(url).hostname) and urlsplit(url).port != 0
    except ValueError:
        return False


def _literal_secrets(server: dict[str, Any]) -> list[str]:
    """Return a line for each secret that is written literally into the file."""
    given = [("--env", "=", *each) for each in server.get("env", {}).items()]
    given += [("--header", ": ", *each) for each in server.get("headers", {}).items()]
    said = [
        f"{name} is in the file as you gave it; with {option} '{name}{sign}${{VARIABLE}}' it is taken from the"
        " environment instead"
        for option, sign, name, value in given
        if is_secret("AUTH" if name.lower() == "authorization" else name, value) and "${" not in value
    ]
    url, words = server.get("url", ""), server.get("args", ())
    query = parse_qsl(urlsplit(url).query)
    is_in_url = is_secret("", url) or any(is_secret(name, value) for name, value in query)
    before = ["", *(word if word.startswith("-") else "" for word in words)]  # an option may name what follows
    others = {
        "the URL": "${" not in url and is_in_url,
        "an argument": any(map(_is_literal, before, words)),
    }
    return said + [
        f"a secret in {place} is in the file as you gave it; with ${{VARIABLE}} in its place it is taken from"
        " the environment instead"
        for place, is_there in others.items()
        if is_there
    ]


def _is_literal(name: str, word: str) -> bool:
    """Return True if an argument is a secret, alone or as the value of an option of this name."""
    option, _, value = word.partition("=") if word.startswith("-") else (name, "", word)
    return "${" not in value and (is_secret(option, value) or is_secret("", word))


def _other_definitions(setup: Setup, name: str, words: str = "it takes the place of the one in") -> list[str]:
    """Return notes about servers of the same name in other files."""
    own = str(setup.config_dir / "config.yaml")
    found = (each for each in every_server(found_servers(setup)) if each.name == name)
    return [f"{name}: {words} {each.source}" for each in found if not each.source.startswith(own)]
