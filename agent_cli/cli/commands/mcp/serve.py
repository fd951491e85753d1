"""`agent mcp serve`: serve the tools of this program, and whole tasks, to an MCP client on the standard
streams."""

import asyncio
import sys
from functools import partial
from typing import Annotated, Any

import typer

from agent_cli.bootstrap.compose import open_session
from agent_cli.bootstrap.options import ParsedOptions
from agent_cli.bootstrap.session_builder import INTERACTIVE, NON_INTERACTIVE, OpenSession
from agent_cli.bootstrap.setup import Setup, with_values
from agent_cli.model.client_calls import ClientCalls
from agent_cli.serve.served import TASK, Served, ToolSpec

from ...services.completion import shared, with_options
from ...services.serving import RunningSession, until_stopped
from ...services.trust_prompt import inert_lines, pending_trust_requests

_WITHOUT = ("ask_user", "finish", "update_plan", "mcp")
"""Tools of no use to a client, which has its own equivalents."""
_NO_MODEL = "mcp/client"


@with_options(*shared("mode", "cd"))
def serve(
    tools: Annotated[
        str | None,
        typer.Option(
            "--tools", metavar="NAMES", help="Offer only these, separated by commas; -NAME leaves one out."
        ),
    ] = None,
    *,
    given: dict[str, Any],
) -> int:
    """Offer the tools of this program, and `agent` for whole tasks, to an MCP client over standard input and
    output."""
    chosen = ParsedOptions("agent", given)
    setup = Setup(chosen)
    for line in inert_lines(pending_trust_requests(setup)):
        print(f"agent: {line} Start `agent` once.", file=sys.stderr)
    words = [word.strip() for word in tools.split(",") if word.strip()] if tools is not None else None
    return asyncio.run(_serve(chosen, setup, words))


async def _serve(chosen: ParsedOptions, setup: Setup, words: list[str] | None) -> int:
    from agent_cli.serve.mcp.server import serve_stdio

    names = _names(setup, words)
    own, model = with_values(chosen, tools=",".join(names)), setup.config.model or _NO_MODEL
    tools = (lambda can_ask: _open(own, ClientCalls(model), can_ask)) if names else None
    named = [word for word in words or () if not word.startswith("-")]
    has_task = (not named or TASK.name in named) and f"-{TASK.name}" not in (words or ())
    served = Served(tools, partial(_open, chosen, None) if has_task else None)
    await served.tools()  # report wrong options before serving
    return await until_stopped(serve_stdio(served, str(setup.workspace.root)))


def _names(setup: Setup, words: list[str] | None) -> list[str]:
    """Return the selection of single tools, in the syntax of `tools.enabled`; empty for none."""
    named = list(setup.config.tools.enabled) if words is None else words
    left = [word for word in named if word.removeprefix("-") != TASK.name]
    if named and not left:
        return []
    return [*left, *(f"-{name}" for name in _WITHOUT)]


class _Opened(RunningSession):
    """An open session, as MCP clients see it."""

    def __init__(self, opened: OpenSession, calls: ClientCalls | None) -> None:
        super().__init__(opened)
        self.calls = calls
        self.tools = tuple(ToolSpec(each.name, each.description, each.parameters) for each in opened.tools.specs())
        for note in opened.notes:
            print(f"agent: {note}", file=sys.stderr)


async def _open(chosen: ParsedOptions, calls: ClientCalls | None, can_ask: bool) -> _Opened:
    """Open a session: for the calls of a client that acts as the model, or for a whole task. `can_ask` is True if
    the client can put a question to its user."""
    front = INTERACTIVE if can_ask else NON_INTERACTIVE
    return await _Opened(await open_session(Setup(chosen), front, model=calls), calls).begin()
