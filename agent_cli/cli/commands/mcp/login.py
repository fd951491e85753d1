"""`agent mcp login` and `logout`: the user's login at a server that requires one."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from agent_cli.bootstrap.mcp_servers import found_servers, is_trusted, logins_folder, named_server
from agent_cli.bootstrap.options import UsageError
from agent_cli.bootstrap.setup import Setup
from agent_cli.mcp.types.client import ServerError
from agent_cli.mcp.types.definition import ServerDefinition
from agent_cli.protocol.sanitize import visible

from ...services.completion import server_names
from ...services.config_file import refuse_for_the_model

if TYPE_CHECKING:
    from agent_cli.mcp.client.tokens import TokenStore

ServerName = Annotated[str, typer.Argument(metavar="NAME", help="The server.", autocompletion=server_names)]


def login(
    name: ServerName,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> int:
    """Log in to a server in your browser, or by pasting the address that a browser elsewhere was sent to."""
    refuse_for_the_model("log in at a server")
    setup = Setup()
    found = found_servers(setup)
    definition = named_server(found, name)
    if not is_trusted(found, definition):
        raise UsageError(f"{name} is not trusted; `agent mcp trust {name}` shows it and asks")
    if definition.problem:
        raise UsageError(f"{name} cannot be used: {definition.problem}")
    setup.make_state()
    try:
        asyncio.run(_login(setup, definition, opens=not no_browser and _has_browser()))
    except (ServerError, OSError) as error:
        print(f"agent: {visible(str(error))}", file=sys.stderr)
        return 1
    print(f"Logged in to {name}. `agent mcp test {name}` tries it.")
    return 0


def logout(name: ServerName) -> int:
    """Delete the login to a server from this machine."""
    refuse_for_the_model("log out of a server")
    setup = Setup()
    definition = named_server(found_servers(setup), name)
    setup.make_state()
    had_login = _tokens(setup).forget(definition)
    print(f"Logged out of {name}." if had_login else f"You were not logged in to {name}.")
    return 0


def _tokens(setup: Setup) -> "TokenStore":
    from agent_cli.mcp.client.tokens import TokenStore

    return TokenStore(logins_folder(setup))


async def _login(setup: Setup, definition: ServerDefinition, *, opens: bool) -> None:
    from agent_cli.mcp.client.oauth import login as run_login

    async with _pasted_lines() as pasted:

        def show(address: str) -> None:
            print(f"Open this address to log in at {definition.name}:\n\n  {visible(address)}\n", flush=True)
            if pasted is not None:
                print("If the browser runs on another machine, paste here the address it is sent to.", flush=True)
            if opens and address.startswith(("https://", "http://")):
                import webbrowser

                webbrowser.open(address)

        await run_login(definition, _tokens(setup), show=show, pasted=pasted)


@contextlib.asynccontextmanager
async def _pasted_lines() -> AsyncIterator[Callable[[], Awaitable[str]] | None]:
    """Yield a function that waits for a line with text on standard input; None if waiting is not supported, as
    for a file."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()
    taken = bytearray()

    def read() -> None:
        data = os.read(0, 65_536)
        taken.extend(data)
        first, end, _ = bytes(taken).lstrip().partition(b"\n")
        if not data or end:
            loop.remove_reader(0)
        if end and not line.done():
            line.set_result(first.decode("utf-8", "replace").strip())

    async def pasted() -> str:
        return await line

    try:
        loop.add_reader(0, read)
    except (OSError, ValueError):
        yield None
        return
    try:
        yield pasted
    finally:
        loop.remove_reader(0)


def _has_browser() -> bool:
    """Return True if a browser could open on a local display."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
