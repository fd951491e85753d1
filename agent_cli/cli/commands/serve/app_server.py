"""`agent serve`: sessions for other programs, by JSON-RPC over standard streams or a Unix socket."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_cli import __version__
from agent_cli.bootstrap.options import SHARED, ParsedOptions, UsageError
from agent_cli.bootstrap.session_builder import FrontEnd
from agent_cli.bootstrap.setup import Setup
from agent_cli.protocol.sanitize import visible
from agent_cli.ui.signals import ENDING, signal_handlers

from ...services.completion import with_options
from .host import SessionHost, check_trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent_cli.serve.app.server import AppServer

_CLIENTS = FrontEnd(approves=True, answers=True)
"""Clients can be asked; it is unknown whether a user is watching."""
_IDLE_S = 600.0


_NOT_OURS = ("continue", "resume", "fork", "plain")
"""Options of an interactive conversation: a client names the session that it opens."""


@with_options(*(each for each in SHARED if each.key not in _NOT_OURS))
def serve_command(
    *,
    stdio: Annotated[bool, typer.Option("--stdio", help="Serve one client on standard input and output.")] = False,
    socket: Annotated[
        str | None, typer.Option("--socket", metavar="PATH", help="Serve clients of this user on a unix socket.")
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of all messages.")] = False,
    idle_timeout: Annotated[
        float,
        typer.Option(
            "--idle-timeout", metavar="SECONDS", help="Close a session without client or work after.", min=0.1
        ),
    ] = _IDLE_S,
    given: dict[str, Any],
) -> int:
    """Serve sessions to other programs: JSON-RPC over standard streams or a unix socket.

    The options hold for every session; a client can ask for others when it opens one.
    """
    if schema:
        from agent_cli.serve.app.schema import schema_text

        print(schema_text())
        return 0
    if stdio == (socket is not None):
        raise UsageError("agent serve: give either --stdio or --socket PATH")
    return _serve(given, socket, idle_timeout)


def _serve(given: dict[str, Any], socket: str | None, idle_s: float) -> int:
    chosen = ParsedOptions("agent", given)
    setup = Setup(chosen)  # report wrong options before serving
    check_trace(chosen)
    make = partial(_server, chosen, str(setup.root), idle_s)
    return asyncio.run(_serve_stdio(make) if socket is None else _serve_socket(make, socket))


def _server(chosen: ParsedOptions, cwd: str, idle_s: float) -> "AppServer":
    from agent_cli.serve.app.server import AppServer, ServerFacts
    from agent_cli.ui.text.hints import with_advice

    facts = ServerFacts(__version__, cwd, idle_s, lambda event, now: with_advice(event, "shell", now))
    return AppServer(SessionHost(chosen, _CLIENTS), facts)


async def _serve_stdio(make: Callable[[], "AppServer"]) -> int:
    from agent_cli.serve.jsonrpc.stdio import standard_channel

    server = make()
    with _ended_by_signals(server, lambda: None) as ended:
        async with standard_channel() as channel:
            serving = asyncio.create_task(server.serve(channel, is_only=True))
            await server.over.wait()
            await server.aclose()
            await asyncio.wait({serving})
    return ended[0] if ended else 0


async def _serve_socket(make: Callable[[], "AppServer"], path: str) -> int:
    from agent_cli.serve.jsonrpc.channel import LONGEST_LINE, SocketChannel

    from .unix_socket import listening, refusal

    server = make()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if why := refusal(writer.get_extra_info("socket")):
            print(f"agent: a connection was refused: {why}", file=sys.stderr)
            writer.transport.abort()
        else:
            await server.serve(SocketChannel(reader, writer))

    with ExitStack() as stack:
        ended = stack.enter_context(_ended_by_signals(server, stack.close))
        bound, place = stack.enter_context(listening(path))
        listener = await asyncio.start_unix_server(accept, sock=bound, limit=LONGEST_LINE)
        print(f"agent: serving on {visible(str(place))}", file=sys.stderr)
        await server.over.wait()
        listener.close()
        await server.aclose()
    return ended[0] if ended else 0


@contextmanager
def _ended_by_signals(server: "AppServer", at_once: Callable[[], object]) -> "Iterator[list[int]]":
    """End the server on a signal, and immediately on a second one; yields the list of exit codes."""
    codes: list[int] = []

    def end(number: signal.Signals) -> None:
        codes.append(128 + number)
        if server.over.is_set() and len(codes) > 1:
            at_once()
            os._exit(codes[0])
        server.over.set()

    with signal_handlers({number: partial(end, number) for number in ENDING}):
        yield codes
