"""`agent mcp`: list and manage the MCP servers configured here."""

import asyncio
import sys
import time
from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from agent_cli.bootstrap.compose import servers_alone
from agent_cli.bootstrap.mcp_servers import every_server, found_servers, is_trusted, named_server
from agent_cli.bootstrap.options import UsageError
from agent_cli.bootstrap.redactor import redactor_of
from agent_cli.bootstrap.setup import Setup
from agent_cli.mcp.catalog.changes import changed_parts
from agent_cli.mcp.catalog.offer_store import KnownServer, OfferStore
from agent_cli.mcp.connection import Connection
from agent_cli.mcp.sources.discovery import Found
from agent_cli.mcp.types.client import ServerError
from agent_cli.mcp.types.definition import ServerDefinition
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.sanitize import visible_line
from agent_cli.sandbox.process.runner import ProcessRunner

from ...services.config_file import refuse_for_the_model
from ...services.listings.settings import shown_value
from ..sessions.output import print_json
from .add import AddCommand, add, remove
from .login import ServerName, login, logout
from .serve import serve

mcp = typer.Typer(help="List, add, remove and test MCP servers.", no_args_is_help=True)
mcp.command("add", cls=AddCommand)(add)
mcp.command("remove")(remove)
mcp.command("login")(login)
mcp.command("logout")(logout)
mcp.command("serve")(serve)

_NONE = "No MCP server is configured. `agent mcp add NAME COMMAND` adds one; `agent help mcp` explains it."


class _Listed(msgspec.Struct, frozen=True):
    """A server as listed."""

    name: str
    transport: str
    address: str
    """Secrets are masked."""
    source: str
    trusted: bool
    enabled: bool
    tools: tuple[str, ...] | None
    """Tools of the last connection; null if there was none."""
    problem: str

    @property
    def state(self) -> str:
        if not self.trusted:
            return "not trusted"
        return "broken" if self.problem else "enabled" if self.enabled else "disabled"


@mcp.command("list")
def list_servers(json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False) -> int:
    """List the servers of your configuration and of other agents' files. Starts none."""
    setup = Setup()
    found = found_servers(setup)
    listed = [_listed(setup, found, each) for each in every_server(found)]
    if json:
        print_json({"servers": listed, "notes": found.notes})
        return 0
    print("\n".join(_table(listed)) or _NONE)
    for note in found.notes:
        print(f"note: {_line(note)}")
    return 0


@mcp.command()
def get(name: ServerName) -> int:
    """Show one server: its definition, and its tools if they are known. Starts nothing."""
    setup = Setup()
    found = found_servers(setup)
    definition = named_server(found, name)
    known = OfferStore(setup.state / "mcp").load(definition)
    print(_line(definition.name))
    for key, value in _facts(setup, found, definition, known):
        print(f"  {key}: {_line(value)}")
    if known:
        print("  tools:")
        for tool in known.offer.tools:
            change = changed_parts(known.approved.get(tool.name), tool)
            state = f"(asks before its next call: {change}) " if change else ""
            print(f"    {_line(tool.name)}: {_line(f'{state}{tool.description or tool.title}')}")
    return 0


@mcp.command()
def trust(
    name: ServerName, yes: Annotated[bool, typer.Option("--yes", "-y", help="Trust it without asking.")] = False
) -> int:
    """Trust a server that this project defines, in its current form."""
    refuse_for_the_model("trust a server")
    setup = Setup()
    found = found_servers(setup)
    offered = [each for each in found.inert if each.definition.name == name]
    if not offered:
        definition = named_server(found, name)
        why = "is trusted already" if definition.is_project else "is your own and needs no trust"
        print(f"{name} {why} ({definition.source}).")
        return 0
    for each in offered:
        print(_line(each.definition.source))
        print("".join(f"  {_line(line)}\n" for line in each.shown), end="")
    if not yes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError("trusting a server needs your confirmation: run this in a terminal, or add --yes")
        answer = input("Trust it? It runs with your rights. [y] Yes [n] No (empty: n): ")
        if answer.strip().lower() not in ("y", "yes"):
            print("Not trusted.")
            return 1
    for each in offered:
        setup.trust.remember(each.place, each.content)
    print(f"Trusted in its current form. `agent mcp test {name}` tries it.")
    return 0


@mcp.command("test")
def test_server(name: ServerName) -> int:
    """Connect to a server and show what it offers; exit 1 if that fails."""
    setup = Setup()
    found = found_servers(setup)
    definition = named_server(found, name)
    if not is_trusted(found, definition):
        raise UsageError(
            f"{name} is not trusted, so it is not started; `agent mcp trust {name}` shows it and asks"
        )
    if definition.problem:
        raise UsageError(f"{name} cannot be started: {definition.problem}")
    return asyncio.run(_tested(setup, name))


async def _tested(setup: Setup, name: str) -> int:
    processes = ProcessRunner()
    servers = await servers_alone(setup, processes)
    assert servers is not None
    connection = servers.connections[name]
    began = time.monotonic()
    try:
        client = await connection.ready()
    except ServerError as error:
        print("\n".join(_failed(connection, error, _ms(began))))
        return 1
    else:
        offer = client.offer
        print(f"{name}: ready after {_ms(began)}")
        print(f"  server: {_line(offer.server) or 'does not say'}, protocol {_line(offer.protocol)}")
        offered = {
            "tools": [tool.name for tool in offer.tools],
            "prompts": [f"/{name}:{prompt.name}" for prompt in offer.prompts],
            "resources": [f"@{name}:{resource.uri}" for resource in offer.resources],
        }
        for kind, names in offered.items():
            if names or kind == "tools":
                print(f"  {kind} ({len(names)}): {_line(', '.join(names))}")
        for line in connection.log_lines:
            if line.startswith("(left out) "):
                print(f"  left out: {_line(line.removeprefix('(left out) '))}")
        return 0
    finally:
        await servers.aclose()
        await processes.aclose()


def _failed(connection: Connection, error: ServerError, after: str) -> Iterator[str]:
    name = connection.definition.name
    yield f"{name}: failed after {after}"
    yield f"  {_line(str(error))}"
    if connection.log_lines:
        yield "  last lines on stderr:"
        yield from (f"    {_line(line)}" for line in list(connection.log_lines)[-8:])


def _ms(began: float) -> str:
    return f"{(time.monotonic() - began) * 1000:,.0f} ms"


def _listed(setup: Setup, found: Found, definition: ServerDefinition) -> _Listed:
    known = OfferStore(setup.state / "mcp").load(definition)
    return _Listed(
        definition.name,
        definition.transport,
        _masked(setup, "", definition.address),
        definition.source,
        is_trusted(found, definition),
        definition.enabled,
        tuple(tool.name for tool in known.offer.tools) if known else None,
        definition.problem,
    )


def _table(listed: list[_Listed]) -> Iterator[str]:
    width = max((len(_line(each.name)) for each in listed), default=0)
    for each in listed:
        tools = f"{len(each.tools)} tools" if each.tools is not None else "tools unknown"
        shown = f"{_line(each.name):<{width}}  {each.state:<11}  {tools:<13}  {each.transport:<5}"
        yield f"{shown}  {_line(each.address)}    # {_line(each.source)}"
        if each.problem:
            yield f"{'':<{width}}  {_line(each.problem)}"


def _facts(
    setup: Setup, found: Found, definition: ServerDefinition, known: KnownServer | None
) -> Iterator[tuple[str, str]]:
    yield "defined in", definition.source
    yield "transport", definition.transport
    yield "address", _masked(setup, "", definition.address)
    for key, values in (("env", definition.env), ("headers", definition.headers)):
        if values:
            yield key, ", ".join(f"{name}=[masked]" for name in values)
    if definition.cwd:
        yield "cwd", definition.cwd
    own = "you have agreed to the plug-in" if definition.plugin_root else "it is your own"
    trusted = "yes" if definition.is_project else f"not needed: {own}"
    yield "trusted", trusted if is_trusted(found, definition) else f"no (`agent mcp trust {definition.name}`)"
    yield "enabled", "yes" if definition.enabled else "no"
    if definition.problem:
        yield "problem", definition.problem
    yield "timeout_s", f"{definition.timeout_s:g} ({definition.idle_timeout_s:g} without progress)"
    choice = definition.tools
    for key, patterns in (("allow", choice.allow), ("deny", choice.deny), ("always", choice.always)):
        if patterns:
            yield f"tools.{key}", ", ".join(patterns)
    if known is None:
        yield "tools", f"not known yet: `agent mcp test {definition.name}` asks the server"
    else:
        yield "server", f"{known.offer.server or 'does not say'}, protocol {known.offer.protocol}"


def _masked(setup: Setup, key: str, value: str) -> str:
    shown: str = decode_json(shown_value(key, value, redactor_of(setup)))
    return shown


def _line(text: str) -> str:
    return visible_line(text.encode("utf-8", "replace").decode())
